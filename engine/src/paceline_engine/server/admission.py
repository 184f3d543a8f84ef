"""Limits on what may wait for its first token. Counts prompts, not HTTP calls. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from paceline_engine.server.errors import OverloadedError


class Admission:
    """Counts admitted prompts that have no token yet.

    Args:
        max_requests: Prompts that may wait.
        max_tokens: Prompt tokens that may wait; a single prompt is never held to it while
            nothing else waits.
    """

    def __init__(self, max_requests: int, max_tokens: int) -> None:
        self._max_requests = max_requests
        self._max_tokens = max_tokens
        self.requests = 0
        self.tokens = 0

    def check_requests(self, count: int) -> None:
        """Whether so many more prompts may wait, whatever their lengths.

        Raises:
            OverloadedError: They may not.
        """
        if self.requests + count > self._max_requests:
            raise OverloadedError(
                f"{self.requests} requests wait already and the limit is {self._max_requests}; "
                "retry later",
                code="queued_requests",
            )

    def enter(self, prompt_tokens: Sequence[int]) -> None:
        """Takes the prompts of one call in, all or none.

        Args:
            prompt_tokens: Length of each prompt.

        Raises:
            OverloadedError: A limit would be passed; `code` is the rejection reason.
        """
        self.check_requests(len(prompt_tokens))
        requests, tokens = self.requests + len(prompt_tokens), self.tokens + sum(prompt_tokens)
        if tokens > self._max_tokens and requests > 1:
            raise OverloadedError(
                f"{self.tokens} prompt tokens wait already and the limit is {self._max_tokens}; "
                "retry later",
                code="queued_tokens",
            )
        self.requests, self.tokens = requests, tokens

    def leave(self, prompt_tokens: int) -> None:
        """One prompt got its first token, or went away."""
        self.requests -= 1
        self.tokens -= prompt_tokens
