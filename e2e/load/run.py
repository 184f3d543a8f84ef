"""Runs a plan open loop: each request leaves when it is due, whatever became of others."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import aiohttp

from e2e.load.plan import Plan, PlannedRequest
from e2e.load.record import Outcome, Record
from e2e.load.sender import Target, open_session, send

PROGRESS_S = 5.0


@dataclass(slots=True)
class Tally:
    """Where a run stands.

    Attributes:
        planned: Requests in the plan.
        sent: Requests that have left.
        outcomes: Ended requests by outcome.
        tokens: Output tokens of ended requests.
        worst_lag_s: Latest that a request left after it was due; above some 0.1 s the
            generator itself was short of CPU.
    """

    planned: int
    sent: int = 0
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    tokens: int = 0
    worst_lag_s: float = 0.0

    @property
    def running(self) -> int:
        """Requests in flight."""
        return self.sent - self.outcomes.total()

    def add(self, record: Record) -> None:
        """Counts an ended request."""
        self.outcomes[record.outcome] += 1
        self.tokens += record.tokens
        self.worst_lag_s = max(self.worst_lag_s, record.sent_s - record.scheduled_s)


class Run:
    """One run of a plan. `stop` may be called from a signal handler of the loop."""

    def __init__(
        self,
        plan: Plan,
        target: Target,
        on_record: Callable[[Record], None],
        on_progress: Callable[[float, Tally], None],
    ) -> None:
        """Prepares a run.

        Args:
            plan: What to send and when.
            target: Where to.
            on_record: Called with each request as it ends.
            on_progress: Called every few seconds with seconds since the start.
        """
        self.tally = Tally(planned=len(plan.requests))
        self.stopped = False
        self.finished = False
        self._plan = plan
        self._target = target
        self._on_record = on_record
        self._on_progress = on_progress
        self._stop, self._no_more = asyncio.Event(), asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    def stop(self) -> None:
        """Sends nothing further and cancels what is in flight."""
        self.stopped = True
        self._no_more.set()
        self._stop.set()

    def finish(self) -> None:
        """Sends nothing further and lets what is in flight come to its end."""
        self.finished = True
        self._no_more.set()

    async def run(self, started_s: float) -> Tally:
        """Sends the plan and returns when every request has ended.

        It ends at most `target.timeout_s` after the last one was due.

        Args:
            started_s: Unix time at which offset zero was.
        """
        async with open_session() as session, asyncio.TaskGroup() as group:
            progress = group.create_task(self._report())
            for request in self._plan.requests:
                if await self._ends_within(started_s + request.offset_s - time.time()):
                    break
                self._launch(group, session, request, started_s)
            await self._settle()
            progress.cancel()
        return self.tally

    async def _ends_within(self, delay_s: float) -> bool:
        try:
            await asyncio.wait_for(self._no_more.wait(), max(0.0, delay_s))
        except TimeoutError:
            return False
        return True

    def _launch(
        self,
        group: asyncio.TaskGroup,
        session: aiohttp.ClientSession,
        request: PlannedRequest,
        started_s: float,
    ) -> None:
        async def one() -> None:
            record = await send(session, self._target, request, started_s + request.offset_s)
            self.tally.add(record)
            self._on_record(record)

        task = group.create_task(one())
        self.tally.sent += 1
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _settle(self) -> None:
        """Waits for what is in flight, cancelling it once the run is stopped."""
        stop = asyncio.create_task(self._stop.wait())
        while self._tasks and not stop.done():
            await asyncio.wait({stop, *self._tasks}, return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        await asyncio.sleep(0)  # a task cancelled before its first step would leave no record
        for task in self._tasks:
            task.cancel()

    async def _report(self) -> None:
        started = time.monotonic()
        while True:
            await asyncio.sleep(PROGRESS_S)
            self._on_progress(time.monotonic() - started, self.tally)
