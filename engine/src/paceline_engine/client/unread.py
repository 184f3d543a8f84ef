"""Requests on their way to the engine: sent, and not taken yet. Pure."""

from __future__ import annotations

from collections import deque

import msgspec

from paceline_engine.message import AddRequest, LoopState
from paceline_engine.request import Tier


class _Run:
    """Requests in a row that are alike."""

    __slots__ = ("count", "is_batch", "tokens_each")

    def __init__(self, count: int, tokens_each: int, *, is_batch: bool) -> None:
        self.count = count
        self.tokens_each = tokens_each
        self.is_batch = is_batch


class Unread:
    """Counts what was sent against what the engine says it has taken, which keeps the order.

    The engine takes a bounded number of requests between two steps, so of a burst it knows a
    part only, for a while; those behind wait as much as the others.
    """

    def __init__(self) -> None:
        self._runs: deque[_Run] = deque()
        self._taken = 0
        self._requests = self._batch_requests = 0
        self._tokens = self._batch_tokens = 0

    def send(self, message: AddRequest) -> None:
        """A message was sent; a fork has one token to compute, the prompt's last."""
        is_batch = message.request.tier is Tier.BATCH
        self._append(_Run(1, len(message.request.prompt_token_ids), is_batch=is_batch))
        if message.forks:
            self._append(_Run(len(message.forks), 1, is_batch=is_batch))

    def take(self, taken: int) -> None:
        """The engine has taken so many requests, of all that were ever sent."""
        new, self._taken = taken - self._taken, taken
        while new and self._runs:
            run = self._runs[0]
            count = min(new, run.count)
            run.count -= count
            new -= count
            self._count(run, -count)
            if not run.count:
                self._runs.popleft()

    def beside(self, state: LoopState) -> LoopState:
        """The engine's gauges, with what it has not taken among the waiting."""
        if not self._requests:
            return state
        return msgspec.structs.replace(
            state,
            requests_waiting=state.requests_waiting + self._requests,
            waiting_tokens=state.waiting_tokens + self._tokens,
            batch_waiting=state.batch_waiting + self._batch_requests,
            batch_waiting_tokens=state.batch_waiting_tokens + self._batch_tokens,
        )

    def _append(self, run: _Run) -> None:
        self._runs.append(run)
        self._count(run, run.count)

    def _count(self, run: _Run, requests: int) -> None:
        tokens = requests * run.tokens_each
        self._requests += requests
        self._tokens += tokens
        if run.is_batch:
            self._batch_requests += requests
            self._batch_tokens += tokens
