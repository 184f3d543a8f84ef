"""The engine loop: take messages, schedule, run, update, report.

Between two steps it reads what the server has sent, up to a bound, so that a flood of messages
holds up no running stream; with no work it waits for a message
and beats once a second. Whatever arrives is followed by a report, so the server's gauges are
never older than its last message. All decisions are the scheduler's, all work is the runner's.

A step that follows another without a wait is timed from the end of the other, so durations
hold reading messages and reporting too: they are the gaps between emissions, and their sum is
the engine's busy time.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import islice
from typing import Protocol, assert_never

from paceline_engine.clock import Clock
from paceline_engine.engine.watchdog import PAUSE_S, Watchdog
from paceline_engine.kvcache.idle_audit import IdleAudit
from paceline_engine.message import (
    AbortRequests,
    AddRequest,
    ApplyTunables,
    CacheCleared,
    ClearCache,
    FromEngine,
    LoopState,
    Shutdown,
    StepReport,
    StepStats,
    ToEngine,
    TokenOutput,
    TunablesApplied,
)
from paceline_engine.request import FinishReason, Request, Tier
from paceline_engine.runner.base import Runner, RunnerOutput
from paceline_engine.scheduler.output import SchedulerOutput
from paceline_engine.scheduler.scheduler import RequestRefusedError, Scheduler

HEARTBEAT_S = 1.0
AUDIT_PAUSE_S = 0.02  # between two parts of the audit that follows work
_Setting = ApplyTunables | ClearCache | Shutdown
MESSAGES_A_TURN = 256
TOKENS_A_TURN = 65_536  # of prompts; choices share one

_log = logging.getLogger(__name__)


class MessageChannel(Protocol):
    """What the loop needs of the socket."""

    def send(self, message: FromEngine) -> None:
        """Queues a message; never blocks."""
        ...

    def wait(self, timeout_s: float) -> bool:
        """Waits for a message; returns whether there is one."""
        ...

    def pending(self) -> Iterator[ToEngine]:
        """Messages that have arrived, oldest first, without waiting."""
        ...


class EngineLoop:
    """Runs one engine until it is told to end.

    Args:
        scheduler: Owner of all requests.
        runner: Executes steps.
        channel: To the server process.
        clock: Stamps queue times and step durations.
    """

    def __init__(
        self, scheduler: Scheduler, runner: Runner, channel: MessageChannel, clock: Clock
    ) -> None:
        self._scheduler = scheduler
        self._runner = runner
        self._channel = channel
        self._clock = clock
        self._family: Iterator[Request] = iter(())  # of a message that is not taken whole yet
        self._busy_since: float | None = None  # end of the step before, while work goes on
        self._taken = 0
        self._is_shut_down = False
        self._is_audited = True
        self._audit: IdleAudit | None = None  # begun, and not complete
        self._watchdog = Watchdog()

    def run(self) -> None:
        """Serves until a `Shutdown` arrives."""
        while not self._is_shut_down:
            self.turn()

    def turn(self) -> None:
        """Takes what has arrived, then runs one step or, without work, beats or waits."""
        has_news = self._take_messages()
        if self._is_shut_down:
            return
        if self._scheduler.has_work:
            self._step()
            return
        self._busy_since = None
        self._watchdog.ran()
        if has_news or not self._channel.wait(HEARTBEAT_S if self._is_audited else AUDIT_PAUSE_S):
            self._beat()

    def _take_messages(self) -> bool:
        has_news = False
        withdrawn: list[int] = []
        for message in self._batch():
            has_news = True
            if isinstance(message, AbortRequests):
                withdrawn += message.request_ids
                continue
            self._withdraw(withdrawn)
            self._take(message)
        self._withdraw(withdrawn)
        return has_news

    def _take(self, message: Request | _Setting) -> None:
        match message:
            case Request():
                self._add(message)
            case ApplyTunables():
                self._apply(message)
            case ClearCache():
                self._clear(message)
            case Shutdown():
                self._is_shut_down = True
            case _:
                assert_never(message)

    def _withdraw(self, request_ids: list[int]) -> None:
        """Aborts what messages in a row named, at once: choices of a call come one a message."""
        if request_ids:
            self._scheduler.abort(request_ids, self._clock.now())
            request_ids.clear()

    def _batch(self) -> Iterator[Request | AbortRequests | _Setting]:
        """What one turn takes: so many messages, and no more after so many prompt tokens."""
        tokens = 0
        for message in islice(self._arrivals(), MESSAGES_A_TURN):
            yield message
            if isinstance(message, Request) and message.parent_id is None:
                tokens += len(message.prompt_token_ids)
            if tokens >= TOKENS_A_TURN:
                return

    def _arrivals(self) -> Iterator[Request | AbortRequests | _Setting]:
        """What was sent, in its order; a message of many requests may take several turns."""
        for request in self._family:  # not `yield from`: what is left must outlive the turn
            yield request
        for message in self._channel.pending():
            if isinstance(message, AddRequest):
                self._family = message.requests()
                for request in self._family:
                    yield request
            else:
                yield message

    def _add(self, request: Request) -> None:
        self._taken += 1
        try:
            self._scheduler.add(request, self._clock.now())
        except RequestRefusedError as error:
            self._refuse(request.request_id, str(error))

    def _refuse(self, request_id: int, reason: str) -> None:
        _log.warning("request %d refused: %s", request_id, reason)
        output = TokenOutput(request_id, (), FinishReason.ERROR, error=reason)
        self._channel.send(StepReport(outputs=(output,), state=self.state()))

    def _apply(self, message: ApplyTunables) -> None:
        limits = self._scheduler.limits
        limits.apply(
            max_num_batched_tokens=message.max_num_batched_tokens,
            max_num_running_seqs=message.max_num_running_seqs,
            step_time_target_ms=message.step_time_target_ms,
        )
        self._channel.send(
            TunablesApplied(
                call_id=message.call_id,
                max_num_batched_tokens=limits.max_num_batched_tokens,
                max_num_running_seqs=limits.max_num_running_seqs,
                step_time_target_ms=limits.step_time_target_ms,
            )
        )

    def _clear(self, message: ClearCache) -> None:
        pool = self._scheduler.pool
        purged = pool.purge(
            self._clock.now(),
            tenant=message.tenant,
            scope=message.scope,
            salt=message.salt,
            older_than_s=message.older_than_s,
        )
        self._runner.wipe(purged.block_ids)
        self._channel.send(
            CacheCleared(
                message.call_id, blocks=purged.freed, tokens=purged.tokens, held=purged.held
            )
        )

    def _beat(self) -> None:
        self._scheduler.pool.expire(self._clock.now())
        self._runner.wipe(self._scheduler.pool.take_wipes())
        if not self._is_audited:
            self._audit = self._audit or self._scheduler.pool.audit()
            self._is_audited = self._scheduler.pool.audit_more(self._audit)
        self._channel.send(StepReport(outputs=(), state=self.state()))

    def _step(self) -> None:
        self._is_audited, self._audit = False, None
        scheduled_at = self._clock.now()
        step = self._scheduler.schedule(scheduled_at)
        if not step.chunks:
            self._pause(step, scheduled_at)
            return
        self._watchdog.ran()
        result = self._runner.execute(step)
        outputs = self._scheduler.update(result, self._clock.now())
        ended_at = self._clock.now()
        duration_s = ended_at - (scheduled_at if self._busy_since is None else self._busy_since)
        self._busy_since = ended_at
        self._scheduler.observe(step, duration_s)
        self._channel.send(
            StepReport(outputs=outputs, state=self.state(), stats=_stats(step, result, duration_s))
        )

    def _pause(self, step: SchedulerOutput, now_s: float) -> None:
        """Nothing could be scheduled: says so, and waits for news or for a moment."""
        self._busy_since = None
        self._runner.wipe(step.wipes)
        scheduler = self._scheduler
        self._watchdog.idled(scheduler.num_waiting, scheduler.num_running, now_s)
        self._channel.send(StepReport(outputs=(), state=self.state()))
        self._channel.wait(PAUSE_S)

    def state(self) -> LoopState:
        """Gauges now."""
        scheduler = self._scheduler
        return LoopState(
            requests_running=scheduler.num_running,
            requests_waiting=scheduler.num_waiting,
            waiting_tokens=scheduler.waiting_tokens,
            kv_blocks_free=scheduler.pool.num_free,
            kv_blocks_held=scheduler.pool.num_held,
            kv_blocks_cached=scheduler.pool.num_cached,
            max_num_batched_tokens=scheduler.limits.max_num_batched_tokens,
            max_num_running_seqs=scheduler.limits.max_num_running_seqs,
            prefix_queries_tokens=scheduler.pool.queries_tokens,
            prefix_hits_tokens=scheduler.pool.hits_tokens,
            batch_running=scheduler.roster.num_running(Tier.BATCH),
            batch_waiting=scheduler.roster.num_waiting(Tier.BATCH),
            batch_waiting_tokens=scheduler.roster.waiting_tokens(Tier.BATCH),
            step_time_target_ms=scheduler.limits.step_time_target_ms,
            requests_taken=self._taken,
        )


def _stats(step: SchedulerOutput, result: RunnerOutput, duration_s: float) -> StepStats:
    return StepStats(
        step_class=step.step_class,
        duration_s=duration_s,
        prefill_tokens=step.prefill_tokens,
        decode_rows=step.decode_rows,
        resident_kv_tokens=step.resident_kv_tokens,
        chunk_context=step.chunk_context,
        at_budget=step.num_tokens >= step.budget,
        preemptions=len(step.preempted),
        sampled_tokens=len(result.sampled),
    )
