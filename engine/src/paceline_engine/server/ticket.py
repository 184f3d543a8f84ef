"""What a call asks of admission, and what it holds while it is in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from paceline_engine.request import Tier


class Ledger(Protocol):
    """Where tickets are accounted for."""

    def started(self, ticket: Ticket, *, served: bool) -> None:
        """A ticket's request waits no more; `served` where it got its first token."""
        ...

    def ended(self, ticket: Ticket, output_tokens: int | None) -> None:
        """A ticket's request is over."""
        ...


@dataclass(frozen=True, slots=True)
class Ask:
    """What one prompt of a call asks for.

    Attributes:
        prompt_tokens: Its length.
        output_tokens: Most that each choice can put out.
        choices: How many are generated.
        is_limited: Whether the caller set the most; else twice the mean answer is projected.
    """

    prompt_tokens: int
    output_tokens: int
    choices: int = 1
    is_limited: bool = True


class Ticket:
    """One admitted request.

    Attributes:
        tier: Its tier.
        prompt_tokens: What it brings to the queue.
        kv_tokens: What it may come to hold.
        shares_prompt: Whether another choice of the same prompt brings the prompt's tokens.
        tenant: Whose it is.
    """

    __slots__ = (
        "_ended",
        "_ledger",
        "_waiting",
        "kv_tokens",
        "prompt_tokens",
        "shares_prompt",
        "tenant",
        "tier",
    )

    def __init__(
        self,
        ledger: Ledger,
        tier: Tier,
        prompt_tokens: int,
        kv_tokens: int,
        *,
        shares_prompt: bool = False,
        tenant: str = "",
    ) -> None:
        self._ledger = ledger
        self._waiting = True
        self._ended = False
        self.tier = tier
        self.prompt_tokens = prompt_tokens
        self.kv_tokens = kv_tokens
        self.shares_prompt = shares_prompt
        self.tenant = tenant

    def start(self) -> None:
        """It got its first token; harmless after the first time."""
        if self._waiting:
            self._waiting = False
            self._ledger.started(self, served=True)

    def end(self, output_tokens: int | None = None) -> None:
        """It is over; harmless after the first time.

        Args:
            output_tokens: Length of its answer; None where it did not run to its end.
        """
        if self._ended:
            return
        self._ended = True
        if self._waiting:
            self._waiting = False
            self._ledger.started(self, served=False)
        self._ledger.ended(self, output_tokens)
