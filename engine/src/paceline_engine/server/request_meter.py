"""Latencies of one request, fed to histograms, objectives and goodput exactly once.

A request is one choice of one prompt. Choices of one prompt share its tokens: only the first
brings them, so that prompt tokens here are those that callers are told in `usage`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from paceline_engine.request import Tier
from paceline_engine.server.judgement import Judgement
from paceline_engine.server.metric_families import RequestMetrics
from paceline_engine.server.request_record import Identity, RequestRecord, tenant_digest
from paceline_engine.server.slo import CallLater, SloBoard

NOBODY = Identity()


@dataclass(slots=True)
class OfferedLoad:
    """Prompts of known length so far, and their tokens."""

    prompts: int = 0
    tokens: int = 0

    def add(self, prompt_tokens: int, prompts: int = 1) -> None:
        """Notes one more, or several of one length."""
        self.prompts += prompts
        self.tokens += prompts * prompt_tokens

    @property
    def mean_tokens(self) -> int:
        """Their mean length, rounded; 0 before the first."""
        return round(self.tokens / self.prompts) if self.prompts else 0


@dataclass(slots=True)
class Stall:
    """Time in which a call's client did not take what was written: none of the engine's.

    Attributes:
        seconds: So far, for all requests of the call.
    """

    seconds: float = 0.0

    def add(self, seconds: float) -> None:
        """The client was that slow to take a piece."""
        self.seconds += seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Metering:
    """What every request's meter shares.

    Attributes:
        metrics: Request families.
        board: Objectives.
        clock: Monotonic seconds.
        call_later: Timer of the event loop.
        wall_clock: Unix time in seconds; stamps records.
        record: Takes the record of each request that has ended; None keeps none.
        offered: Lengths of the prompts that were tokenised.
    """

    metrics: RequestMetrics
    board: SloBoard
    clock: Callable[[], float]
    call_later: CallLater
    wall_clock: Callable[[], float] = time.time
    record: Callable[[RequestRecord], None] | None = None
    offered: OfferedLoad = field(default_factory=OfferedLoad)

    def admit(
        self,
        received_at: float,
        prompt_tokens: int,
        identity: Identity = NOBODY,
        *,
        shares_prompt: bool = False,
        stall: Stall | None = None,
    ) -> RequestMeter:
        """Starts to measure an admitted request.

        Args:
            received_at: Monotonic time of the call's first byte.
            prompt_tokens: Length of the prompt.
            identity: Whose it is, and its tier.
            shares_prompt: Whether another choice of the same prompt brings the prompt's tokens.
            stall: The call's; None for one whose client always reads.
        """
        return RequestMeter(
            self,
            received_at,
            prompt_tokens,
            identity,
            shares_prompt=shares_prompt,
            stall=stall or Stall(),
        )

    def offer(
        self, tier: Tier, prompt_tokens: int | None, choices: int = 1, *, prompts: int = 1
    ) -> None:
        """Counts offered load: the requests of prompts, whether they are admitted or not.

        Args:
            tier: Their tier.
            prompt_tokens: Length of each prompt; None where they are turned away before they
                are tokenised, and then the mean length so far stands for it.
            choices: How many requests each brings.
            prompts: How many prompts of that length.
        """
        if prompt_tokens is None:
            prompt_tokens = self.offered.mean_tokens
        else:
            self.offered.add(prompt_tokens, prompts)
        metrics = self.metrics.of(tier)
        metrics.received.inc(prompts * choices)
        metrics.prompt_tokens_received.inc(prompts * prompt_tokens)

    def redirect(self, reason: str, tier: Tier | None, requests: int = 1) -> None:
        """Counts valid requests that belong to another replica: loading, draining, dead.

        They are no load and no sample here: the proxy asks the next replica, and a request
        counts once, where it ends.
        """
        self.metrics.redirected(reason, tier, requests)

    def refuse(self, reason: str, tier: Tier = Tier.INTERACTIVE, requests: int = 1) -> None:
        """Counts valid requests that were turned away for good: too much waits."""
        metrics = self.metrics.of(tier)
        metrics.rejected(reason, requests)
        self.board.refuse(tier, requests)
        metrics.judged(good=False, requests=requests)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Finish:
    """How a request did whose last token has come."""

    latency_s: float
    tpot_s: float | None
    is_good: bool


class RequestMeter:
    """Follows one admitted request from its first byte to its end.

    Attributes:
        output_tokens: Tokens counted so far.
    """

    def __init__(
        self,
        metering: Metering,
        received_at: float,
        prompt_tokens: int,
        identity: Identity,
        *,
        shares_prompt: bool,
        stall: Stall,
    ) -> None:
        self._metering = metering
        self._metrics = metering.metrics.of(identity.tier)
        self._received_at = received_at
        self._prompt_tokens = prompt_tokens
        self._identity = identity
        self._shares_prompt = shares_prompt
        self._queue_s: float | None = None
        self._cached_tokens: int | None = None
        self._first_at: float | None = None
        self._last_at: float | None = None
        self._finished: _Finish | None = None
        self._emissions = 0
        self._stall = stall
        self.output_tokens = 0
        self._judgement = Judgement(
            metering.board,
            metering.board.of(identity.tier),
            metering.call_later,
            metering.clock() - received_at,
        )
        if not shares_prompt:
            self._metrics.request_prompt_tokens.observe(prompt_tokens)

    @property
    def ttft_s(self) -> float | None:
        """Time to the first token, once there was one."""
        return None if self._first_at is None else self._first_at - self._received_at

    def queued(self, queue_s: float) -> None:
        """The engine said how long the request waited for its first step."""
        self._queue_s = queue_s
        self._metrics.queue.observe(queue_s)

    def cached(self, tokens: int) -> None:
        """The engine said how much of the prompt came from the prefix cache."""
        self._cached_tokens = tokens

    def tokens(self, count: int) -> None:
        """Tokens came out of the engine and belong to the answer."""
        self.output_tokens += count
        self._metering.metrics.generation_tokens.inc(count)

    def emitted(self) -> None:
        """The tokens are about to be written (or, for a whole answer, ready)."""
        now = self._now()
        if self._last_at is None:
            self._emitted_first(now)
        else:
            gap = now - self._last_at
            self._metrics.itl.observe(gap)
            self._judgement.gap(gap)
        self._last_at = now
        self._emissions += 1

    def _emitted_first(self, now: float) -> None:
        self._first_at = now
        latency = now - self._received_at
        self._metrics.ttft.observe(latency)
        if not self._shares_prompt:
            self._metering.metrics.prompt_tokens.inc(self._prompt_tokens)
        self._judgement.started(latency)

    def finished(self) -> None:
        """The last token has come: all that is timed ends here, whoever reads when."""
        self._finish()

    def complete(self, outcome: str) -> None:
        """The answer is whole and passed on; `outcome` is `stop` or `length`."""
        finish = self._finish()
        self._metrics.ended(outcome)
        self._metrics.duration.observe(finish.latency_s)
        self._metrics.request_generation_tokens.observe(self.output_tokens)
        if finish.tpot_s is not None:
            self._metrics.tpot.observe(finish.tpot_s)
        self._metrics.judged(good=finish.is_good)
        self._record(outcome)

    def _finish(self) -> _Finish:
        if self._finished is None:
            if self._first_at is None:
                self.emitted()  # an answer without text: its end is its first sign of life
            latency_s, tpot_s = self._metering.clock() - self._received_at, self._tpot_s()
            is_good = self._judgement.completed(latency_s, tpot_s)
            self._finished = _Finish(latency_s=latency_s, tpot_s=tpot_s, is_good=is_good)
        return self._finished

    def _now(self) -> float:
        """Time on a clock that stands still while the client does not read."""
        return self._metering.clock() - self._stall.seconds

    def _tpot_s(self) -> float | None:
        """(end - first token) / (tokens - 1), the usual definition."""
        if self._first_at is None or self.output_tokens < 2:
            return None
        return (self._now() - self._first_at) / (self.output_tokens - 1)

    def abandon(self, outcome: str) -> None:
        """The request ended without a whole answer; `outcome` is `abort`, `invalid` or `error`.

        One whose client left before the first token counts as `gone`: load that got nothing.
        """
        if outcome == "abort" and self._first_at is None:
            outcome = "gone"
        self._metrics.ended(outcome)
        if self._judgement.abandoned(self._open_gap_s, is_error=outcome == "error"):
            self._metrics.judged(good=False)
        self._record(outcome)

    @property
    def _open_gap_s(self) -> float | None:
        """Since the last emission; None where none came or none is due."""
        if self._last_at is None or self._finished is not None:
            return None
        return self._now() - self._last_at

    @property
    def _mean_itl_s(self) -> float | None:
        if self._first_at is None or self._last_at is None or self._emissions < 2:
            return None
        return (self._last_at - self._first_at) / (self._emissions - 1)

    def _record(self, outcome: str) -> None:
        record = self._metering.record
        if record is None:
            return
        identity, elapsed_s = self._identity, self._metering.clock() - self._received_at
        record(
            RequestRecord(
                request_id=identity.request_id,
                index=identity.index,
                tier=identity.tier.value,
                tenant=tenant_digest(identity.tenant),
                outcome=outcome,
                received_at=self._metering.wall_clock() - elapsed_s,
                prompt_tokens=self._prompt_tokens,
                cached_tokens=self._cached_tokens,
                output_tokens=self.output_tokens,
                emissions=self._emissions,
                queue_s=self._queue_s,
                ttft_s=self.ttft_s,
                mean_itl_s=self._mean_itl_s,
                e2e_s=elapsed_s if self._finished is None else self._finished.latency_s,
            )
        )
