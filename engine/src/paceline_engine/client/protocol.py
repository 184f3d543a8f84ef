"""What the server may ask of an engine, whatever carries the messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Protocol

from paceline_engine.message import (
    CacheCleared,
    Fork,
    LoopState,
    StepStats,
    TokenOutput,
    TunablesApplied,
)
from paceline_engine.request import Request


class EngineDeadError(RuntimeError):
    """The engine process has ended or cannot go on; the text is one line for people."""


class EngineClient(Protocol):
    """What the server may ask of an engine. All methods belong to one event loop.

    Attributes:
        ready: Set once the model is loaded and steps can run.
        failed: Set once the engine is dead; `failure` then says why.
        on_step: Called with every executed step's measurements, after `state` is updated.
    """

    ready: asyncio.Event
    failed: asyncio.Event
    on_step: Callable[[StepStats], None] | None

    @property
    def failure(self) -> str | None:
        """Why the engine is dead, one line; None while it lives."""
        ...

    @property
    def state(self) -> LoopState:
        """Gauges of the last report; zeros and start values before the first.

        Requests that were submitted and that the engine has not taken yet are among the
        waiting.
        """
        ...

    @property
    def pid(self) -> int | None:
        """Process id of the engine; None where it has none of its own."""
        ...

    @property
    def last_heartbeat_s(self) -> float:
        """`time.monotonic()` when the engine was last heard.

        Reports come every step and every second while idle or loading, so the age grows
        past a second only by the length of the step that runs.
        """
        ...

    def submit(
        self, request: Request, forks: Sequence[Fork] = ()
    ) -> Sequence[AsyncIterator[TokenOutput]]:
        """Queues a request, and other choices of its prompt, at once: their wait begins now.

        Returns:
            The outputs of the request and of each fork, the last of each with a finish reason.

        Raises:
            EngineDeadError: Here or from an iterator, as soon as the engine dies.
        """
        ...

    def abort(self, *request_ids: int) -> None:
        """Withdraws requests together; the iterator of each ends with `FinishReason.ABORT`.

        Unknown and ended ids are ignored.
        """
        ...

    async def apply_tunables(
        self,
        *,
        max_num_batched_tokens: int | None = None,
        max_num_running_seqs: int | None = None,
        step_time_target_ms: float | None = None,
    ) -> TunablesApplied:
        """Sets live knobs between two steps and returns the settings now in force.

        Raises:
            EngineDeadError: The engine died before it answered.
        """
        ...

    async def clear_cache(
        self,
        *,
        tenant: str | None = None,
        scope: str | None = None,
        salt: str | None = None,
        older_than_s: float | None = None,
    ) -> CacheCleared:
        """Drops cached KV that matches every part given; None matches all.

        Raises:
            EngineDeadError: The engine died before it answered.
        """
        ...

    async def wait_ready(self) -> None:
        """Waits until `ready`.

        Raises:
            EngineDeadError: The engine died first.
        """
        ...

    async def start(self) -> None:
        """Starts the engine; returns while it may still be loading."""
        ...

    async def stop(self) -> None:
        """Ends the engine and every request in it; safe to call twice."""
        ...
