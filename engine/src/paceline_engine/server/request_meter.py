"""Latencies of one request, fed to histograms, objectives and goodput exactly once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from paceline_engine.server.admin_wire import SloMetric
from paceline_engine.server.metric_families import RequestMetrics
from paceline_engine.server.slo import CallLater, Deadline, GapTally, SloBoard


@dataclass(slots=True)
class OfferedLoad:
    """Prompts of known length so far, and their tokens."""

    prompts: int = 0
    tokens: int = 0

    def add(self, prompt_tokens: int) -> None:
        """Notes one more."""
        self.prompts += 1
        self.tokens += prompt_tokens

    @property
    def mean_tokens(self) -> int:
        """Their mean length, rounded; 0 before the first."""
        return round(self.tokens / self.prompts) if self.prompts else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Metering:
    """What every request's meter shares.

    Attributes:
        metrics: Request families.
        board: Objectives.
        clock: Monotonic seconds.
        call_later: Timer of the event loop.
        offered: Lengths of the prompts that were tokenised.
    """

    metrics: RequestMetrics
    board: SloBoard
    clock: Callable[[], float]
    call_later: CallLater
    offered: OfferedLoad = field(default_factory=OfferedLoad)

    def admit(self, received_at: float, prompt_tokens: int) -> RequestMeter:
        """Starts to measure an admitted request."""
        return RequestMeter(self, received_at, prompt_tokens)

    def offer(self, prompt_tokens: int | None) -> None:
        """Counts offered load: a prompt, whether it is admitted or not.

        Args:
            prompt_tokens: Its length; None where it is turned away before it is tokenised,
                and then the mean length so far stands for it.
        """
        if prompt_tokens is None:
            prompt_tokens = self.offered.mean_tokens
        else:
            self.offered.add(prompt_tokens)
        self.metrics.received.inc()
        self.metrics.prompt_tokens_received.inc(prompt_tokens)

    def redirect(self, reason: str) -> None:
        """Counts a valid prompt that belongs to another replica: loading, draining, dead.

        It is no load and no sample here: the proxy asks the next replica, and a request
        counts once, where it ends.
        """
        self.metrics.rejected(reason)

    def refuse(self, reason: str) -> None:
        """Counts a valid prompt that was turned away for good: too much waits."""
        self.metrics.rejected(reason)
        self.board.refuse()
        self.metrics.judged(good=False)


class RequestMeter:
    """Follows one admitted request from its first byte to its end.

    Attributes:
        output_tokens: Tokens counted so far.
    """

    def __init__(self, metering: Metering, received_at: float, prompt_tokens: int) -> None:
        self._metering = metering
        self._received_at = received_at
        self._prompt_tokens = prompt_tokens
        self._first_at: float | None = None
        self._last_at: float | None = None
        self._blocked_s = 0.0
        self.output_tokens = 0
        elapsed = metering.clock() - received_at
        deadlines: dict[SloMetric, list[Deadline]] = {SloMetric.TTFT: [], SloMetric.E2E: []}
        for slo in metering.board.slos:
            if slo.metric in deadlines:
                timer = Deadline(metering.board, slo, metering.call_later, elapsed)
                deadlines[slo.metric].append(timer)
        self._ttft, self._e2e = deadlines[SloMetric.TTFT], deadlines[SloMetric.E2E]
        by_metric = [slo for slo in metering.board.slos if slo.metric is SloMetric.ITL]
        self._gaps = [GapTally(metering.board, slo) for slo in by_metric]
        self._tpot = [slo for slo in metering.board.slos if slo.metric is SloMetric.TPOT]
        metering.metrics.request_prompt_tokens.observe(prompt_tokens)

    @property
    def ttft_s(self) -> float | None:
        """Time to the first token, once there was one."""
        return None if self._first_at is None else self._first_at - self._received_at

    def queued(self, queue_s: float) -> None:
        """The engine said how long the request waited for its first step."""
        self._metering.metrics.queue.observe(queue_s)

    def tokens(self, count: int) -> None:
        """Tokens came out of the engine and belong to the answer."""
        self.output_tokens += count
        self._metering.metrics.generation_tokens.inc(count)

    def blocked(self, seconds: float) -> None:
        """The client was that slow to take what was written: no time of the engine's."""
        self._blocked_s += seconds

    def emitted(self) -> None:
        """The tokens are about to be written (or, for a whole answer, ready)."""
        now = self._now()
        if self._last_at is None:
            self._emitted_first(now)
        else:
            gap = now - self._last_at
            self._metering.metrics.itl.observe(gap)
            for tally in self._gaps:
                tally.add(gap)
        self._last_at = now

    def _emitted_first(self, now: float) -> None:
        self._first_at = now
        latency = now - self._received_at
        self._metering.metrics.ttft.observe(latency)
        self._metering.metrics.prompt_tokens.inc(self._prompt_tokens)
        for deadline in self._ttft:
            deadline.meet(latency)

    def complete(self, outcome: str) -> None:
        """The answer is whole; `outcome` is `stop` or `length`."""
        if self._first_at is None:
            self.emitted()  # an answer without text: its end is its first sign of life
        now = self._metering.clock()
        metrics = self._metering.metrics
        metrics.ended(outcome)
        metrics.duration.observe(now - self._received_at)
        metrics.request_generation_tokens.observe(self.output_tokens)
        for deadline in self._e2e:
            deadline.meet(now - self._received_at)
        self._observe_tpot(self._now())
        metrics.judged(good=not self._is_late())

    def _now(self) -> float:
        """Time on a clock that stands still while the client does not read."""
        return self._metering.clock() - self._blocked_s

    def _observe_tpot(self, ended_at: float) -> None:
        """(end - first token) / (tokens - 1), the usual definition."""
        if self._first_at is None or self.output_tokens < 2:
            return
        tpot = (ended_at - self._first_at) / (self.output_tokens - 1)
        self._metering.metrics.tpot.observe(tpot)
        for slo in self._tpot:
            self._metering.board.count(slo, good=tpot * 1e3 <= slo.target_ms)

    def abandon(self, outcome: str) -> None:
        """The request ended without a whole answer; `outcome` is `abort` or `error`.

        A client that left in time makes no sample; an error of ours is bad.
        """
        self._metering.metrics.ended(outcome)
        for deadline in (*self._ttft, *self._e2e):
            if outcome == "error":
                deadline.expire()
            else:
                deadline.withdraw()
        if self._last_at is not None:
            for tally in self._gaps:
                tally.add_if_late(self._now() - self._last_at)
        if outcome == "error":
            for slo in self._tpot:
                self._metering.board.count(slo, good=False)
        if outcome == "error" or self._is_late():
            self._metering.metrics.judged(good=False)

    def _is_late(self) -> bool:
        late_start = any(deadline.late for deadline in self._ttft)
        return late_start or not all(tally.met for tally in self._gaps)
