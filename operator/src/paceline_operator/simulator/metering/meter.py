"""What a real engine would export, counted from what a simulated one tells.

`take` cuts it into windows as `metrics.scraper` does, so that the operator's own code reads
them unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Protocol, cast

from paceline_operator.autopilot.vocabulary.policy import Objective
from paceline_operator.autopilot.vocabulary.window import (
    BATCH,
    INTERACTIVE,
    Counter,
    Histogram,
    Latency,
    Moments,
    SloCounts,
    StepClass,
    Window,
)
from paceline_operator.simulator.metering.edges import EDGES
from paceline_operator.simulator.metering.grid import Grid
from paceline_operator.simulator.metering.objective_counts import ObjectiveCounts
from paceline_operator.simulator.metering.step_meter import ITL_EDGES, STEP_EDGES, StepMeter, Times
from paceline_operator.simulator.metering.tally import Tally
from paceline_operator.simulator.scoring.outcome import COMPLETED, FAILED
from paceline_operator.simulator.sink import Served

BY_TIER = (Latency.TTFT, Latency.ITL, Latency.TPOT, Latency.E2E, Latency.PROMPT_TOKENS)
"""What is told by tier: latencies that objectives are about, and how long prompts are."""
NO_LOAD = frozenset({"draining", "not_ready", "bodies", "never_fits"})
"""Refusals that are neither load nor samples: another replica serves it, or none ever can."""


class Work(Protocol):
    """What an engine counts itself, since it began."""

    @property
    def preemptions(self) -> int:
        """Requests put back to be recomputed."""

    @property
    def prefix_queries_tokens(self) -> int:
        """Tokens looked up in the prefix cache when requests were first let in."""

    @property
    def prefix_hits_tokens(self) -> int:
        """Of those, found."""


class Meter:
    """One engine's meter; a `Sink`.

    Args:
        objectives: In force from the beginning.
        now_s: When the engine began.

    Attributes:
        step: See `Sink`; the step meter's own, as a call in between would cost every step.
        stretch: Likewise.
        accepted: Likewise.
    """

    def __init__(self, objectives: Sequence[Objective], now_s: float) -> None:
        self._objectives = ObjectiveCounts(objectives)
        self._steps = StepMeter(self._objectives.itl_limits_s)
        self.step = self._steps.step
        self.stretch = self._steps.stretch
        self.accepted = self._steps.accepted
        self._histograms = {latency: Tally(edges) for latency, edges in EDGES.items()}
        self._batch = {latency: Tally(EDGES[latency]) for latency in BY_TIER}
        self._by_tier = {INTERACTIVE: self._histograms, BATCH: self._batch}
        self._good = {INTERACTIVE: 0, BATCH: 0}
        self._missed = {INTERACTIVE: 0, BATCH: 0}
        self._counters: dict[Counter, float] = {}
        self._moments: dict[StepClass, Moments] = {}
        self._work: Work | None = None
        self._worked = (0, 0, 0)
        self._taken_s = now_s

    def follow(self, engine: Work) -> None:
        """Has the engine's own counts in the windows as well, from now on."""
        self._work, self._worked = engine, _counts(engine)

    @property
    def itl_targets_ms(self) -> tuple[int, ...]:
        """Targets by which the engine is to count each request's late gaps."""
        return self._objectives.itl_targets_ms

    def set_objectives(self, objectives: Sequence[Objective], now_s: float) -> None:
        """Puts other objectives in force; the engine must be given `itl_targets_ms` anew."""
        self._settle()
        self._objectives.replace(objectives, now_s)
        self._steps.regrid(self._objectives.itl_limits_s)

    def goodput(self, tier: str = INTERACTIVE) -> SloCounts:
        """Requests of a tier that met every TTFT and ITL objective, and others, so far."""
        return SloCounts(good=self._good[tier], bad=self._missed[tier])

    def take(self, now_s: float) -> Window:
        """Growth since the last take.

        Args:
            now_s: Up to which the engine has been advanced.
        """
        self._objectives.expire(now_s)
        self._settle()
        self._add_work()
        window = Window(
            start_s=self._taken_s,
            end_s=now_s,
            pod_seconds=now_s - self._taken_s,
            steps=self._moments,
            counters=self._counters,
            histograms=_taken(self._histograms),
            batch=_taken(self._batch),
            slo=self._objectives.take(),
        )
        self._moments, self._counters, self._taken_s = {}, {}, now_s
        return window

    # What the server counts before the engine has a request.

    def received(self, tier: str, prompt_tokens: int) -> None:
        """A request came, be it admitted or refused; not for one refused for `NO_LOAD`."""
        self._add(Counter.REQUESTS_RECEIVED, 1)
        self._add(Counter.PROMPT_TOKENS_RECEIVED, prompt_tokens)
        if tier != INTERACTIVE:
            self._add(Counter.BATCH_TOKENS_RECEIVED, prompt_tokens)

    def refused(self, tier: str, reason: str) -> None:
        """A request was turned away."""
        self._add(Counter.REQUESTS_REJECTED, 1)
        if reason not in NO_LOAD:
            self._objectives.refuse(tier)
            self._judge(tier, good=False)

    # What the engine tells; see `Sink`.

    def admitted(self, served: Served) -> None:
        """A request was accepted and waits."""
        request = served.request
        self._by_tier[request.tier][Latency.PROMPT_TOKENS].observe(request.prompt_tokens)
        self._objectives.begin(served)

    def first_token(self, served: Served) -> None:
        """A request got its first token."""
        request, first_s = served.request, _first_s(served)
        self._by_tier[request.tier][Latency.TTFT].observe(first_s - served.received_s)
        if served.queue_s is not None:
            self._histograms[Latency.QUEUE].observe(served.queue_s)
        self._add(Counter.PROMPT_TOKENS, request.prompt_tokens)
        self._add(Counter.GENERATION_TOKENS, 1)
        self._objectives.start(served, first_s)

    def gap(self, served: Served, gap_s: float) -> None:
        """A request got its next token after it had been preempted."""
        tier = served.request.tier
        self._by_tier[tier][Latency.ITL].observe(gap_s)
        self._add(Counter.GENERATION_TOKENS, 1)
        self._objectives.gap(tier, gap_s)

    def ended(self, served: Served, outcome: str) -> None:
        """A request has come to its end, or was given up."""
        self._add(Counter.REQUESTS_FINISHED, 1)
        if outcome == COMPLETED:
            self._complete(served)
        elif self._objectives.abandon(served, is_error=outcome == FAILED):
            self._judge(served.request.tier, good=False)

    def _complete(self, served: Served) -> None:
        tier, tokens, ended_s = served.request.tier, served.tokens, served.ended_s
        mine = self._by_tier[tier]
        mine[Latency.E2E].observe(ended_s - served.received_s)
        self._histograms[Latency.GENERATION_TOKENS].observe(tokens)
        tpot_s = None
        if tokens > 1:
            tpot_s = (ended_s - _first_s(served)) / (tokens - 1)
            mine[Latency.TPOT].observe(tpot_s)
        self._judge(tier, good=self._objectives.complete(served, tpot_s))

    def _judge(self, tier: str, *, good: bool) -> None:
        (self._good if good else self._missed)[tier] += 1

    def _add(self, counter: Counter, value: float) -> None:
        self._counters[counter] = self._counters.get(counter, 0.0) + value

    def _settle(self) -> None:
        """Moves what the steps added up to where all else is counted."""
        totals = self._steps.take()
        if not totals.moments:
            return
        for kind, moments in totals.moments.items():
            known = self._moments.get(kind)
            self._moments[kind] = moments if known is None else known + moments
        counts = totals.grid.folded(totals.steps.counts, STEP_EDGES)
        self._histograms[Latency.STEP].add(counts, totals.steps.seconds)
        self._add(Counter.BUSY_SECONDS, totals.steps.seconds)
        self._add(Counter.STEPS_AT_BUDGET, totals.at_budget)
        self._settle_gaps(INTERACTIVE, totals.grid, totals.interactive)
        self._settle_gaps(BATCH, totals.grid, totals.batch)

    def _settle_gaps(self, tier: str, grid: Grid, times: Times) -> None:
        total = sum(times.counts)
        if total:
            self._by_tier[tier][Latency.ITL].add(
                grid.folded(times.counts, ITL_EDGES), times.seconds
            )
            self._objectives.gaps(tier, total, partial(grid.within, times.counts))
            self._add(Counter.GENERATION_TOKENS, total)

    def _add_work(self) -> None:
        if self._work is None:
            return
        before, self._worked = self._worked, _counts(self._work)
        for counter, old, new in zip(_WORK, before, self._worked, strict=True):
            self._add(counter, new - old)


_WORK = (Counter.PREEMPTIONS, Counter.PREFIX_QUERIES_TOKENS, Counter.PREFIX_HITS_TOKENS)


def _counts(engine: Work) -> tuple[int, int, int]:
    return engine.preemptions, engine.prefix_queries_tokens, engine.prefix_hits_tokens


def _first_s(served: Served) -> float:
    return cast("float", served.first_s)


def _taken(tallies: Mapping[Latency, Tally]) -> dict[Latency, Histogram]:
    taken = ((latency, tally.take()) for latency, tally in tallies.items())
    return {latency: histogram for latency, histogram in taken if histogram is not None}
