"""How much will be offered when a replica ordered now serves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt

from paceline_operator.autopilot.demand.trend import Part, carried_on
from paceline_operator.autopilot.measurement.minutes import offered_requests
from paceline_operator.autopilot.plant.workload import Workload
from paceline_operator.autopilot.vocabulary.fleet import FleetObservation
from paceline_operator.autopilot.vocabulary.memory import Minute

SPANS_S = (5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0)
"""Stretches up to now whose rates are looked at: a short one sees a step at once, a long one
knows best what is steady."""
SURE_SIGMAS = 2.5
"""A rate counts for as much as it is at least, 99 times in 100: many stretches are looked at."""
KNOWN_SIGMAS = 1.0
"""The same for a stretch that lies `STEP_SIGMAS` above what came before it."""
STEP_SIGMAS = 5.0
"""Where nobody waits; `QUEUED_SIGMAS` where a queue says the same."""
QUEUED_SIGMAS = 4.0
SURGE_SIGMAS = 3.0
"""What may be a step is looked at more often, and no line goes through it."""
FALL_SIGMAS = 3.0
NOISE_SIGMAS = 0.5
LINES_S = (300.0, 600.0)
"""Stretches through which a line is laid."""

LINE_PARTS = 10
"""How many parts of one are looked at for whether it is a line."""
MOST_CARRIED = 2.0
YOUNG_S = 120.0
"""While less was measured, every stretch counts only for what it proves."""
_SHORT_S = 30.0
_SHORTEST_LONG_S = 60.0
_LEAST_FALL_S = 15.0
_LEAST_SLICES = 12
_MOST_DISPERSION = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """Offered load, in requests of the mean size per second: token work, not a head count.

    Attributes:
        now_rps: Over the last 30 s, or since a surge began.
        forecast_rps: Expected over the next cold start, noise allowance included.
        surging: Whether the newest slices lie far above what came before.
        level_rps: What stretches up to now prove.
        carried_rps: What the line through the last minutes proves for the end of the horizon.
        dispersion: Variance of a count of requests over its mean.
    """

    now_rps: float = 0.0
    forecast_rps: float = 0.0
    surging: bool = False
    level_rps: float = 0.0
    carried_rps: float = 0.0
    dispersion: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What is remembered of the load.

    Attributes:
        minutes: What was offered before the slices.
        surged_at_s: When the last surge began: no line goes through it.
    """

    minutes: tuple[Minute, ...] = ()
    surged_at_s: float = 0.0


NO_PAST = Past()


def forecast(
    fleet: FleetObservation,
    workload: Workload,
    *,
    horizon_s: float,
    memory_s: float,
    is_queued: bool = False,
    past: Past = NO_PAST,
    prompt_share: float = 1.0,
) -> Demand:
    """Forecast from offered prompt tokens: accepted, refused, and gone while waiting.

    Args:
        fleet: Slices of measurements.
        workload: For the mean prompt and its variation.
        horizon_s: How far ahead: a cold start and a tick.
        memory_s: How long a high rate is remembered.
        is_queued: Whether prompts wait so long that more must have come than is carried.
        past: What is remembered of before.
        prompt_share: Share of a request's work that its prompt is; the rest is alike for all.
    """
    step_sigmas = QUEUED_SIGMAS if is_queued else STEP_SIGMAS
    seen = _Offered(fleet, workload, step_sigmas, past.minutes, prompt_share)
    if not seen.slices:
        return Demand()
    longest_s = min(SPANS_S[-1], max(_SHORTEST_LONG_S, memory_s))
    spans = [span_s for span_s in SPANS_S if seen.least_span_s <= span_s < longest_s]
    steady_s = seen.steady_span((longest_s, *reversed(spans)))
    level = max(seen.steady(steady_s), *(seen.sure(s) for s in spans if s <= steady_s))
    carried = min(seen.carried_on(horizon_s, past.surged_at_s), MOST_CARRIED * level)
    expected = max(level, carried)
    noise = NOISE_SIGMAS * seen.sigma(expected, max(horizon_s, _SHORT_S))
    return Demand(
        now_rps=max(seen.rate(_SHORT_S), level),
        forecast_rps=expected + noise if expected else 0.0,
        surging=any(seen.surges(span_s) for span_s in spans if span_s <= _SHORT_S),
        level_rps=level,
        carried_rps=carried,
        dispersion=seen.dispersion,
    )


def rates(
    fleet: FleetObservation, workload: Workload, prompt_share: float = 1.0
) -> dict[float, float]:
    """Offered requests per second over each of the stretches, by its length in seconds."""
    seen = _Offered(fleet, workload, prompt_share=prompt_share)
    return {span_s: seen.rate(span_s) for span_s in SPANS_S} if seen.slices else {}


class _Offered:
    """Rates of a fleet's offered load over stretches of time.

    Args:
        fleet: Slices of measurements.
        workload: For the mean prompt and its variation.
        step_sigmas: How far a stretch lies above what came before it to be known for a step.
        minutes: What was offered before the slices.
        prompt_share: Share of a request's work that its prompt is.
    """

    def __init__(
        self,
        fleet: FleetObservation,
        workload: Workload,
        step_sigmas: float = STEP_SIGMAS,
        minutes: Sequence[Minute] = (),
        prompt_share: float = 1.0,
    ) -> None:
        self._minutes = minutes
        self._prompt_share = prompt_share
        self._step_sigmas = step_sigmas
        self._prompt_tokens = max(1.0, workload.prompt_mean)
        # A router gives pods that nobody can read as much as the others.
        times = 1.0 / fleet.seen_share
        self.slices = [
            Part(w.start_s, w.end_s, times * self._work(w.offered_tokens, offered_requests(w)))
            for w in fleet.slices
        ]
        # A sum of random prompts varies more than a count of requests does.
        by_prompts = 1.0 + prompt_share**2 * workload.prompt_cv2
        self._dispersion = min(_MOST_DISPERSION, max(by_prompts, self._clustering()))

    @property
    def dispersion(self) -> float:
        """Variance of a count of requests over its mean."""
        return self._dispersion

    @property
    def least_span_s(self) -> float:
        """Shortest stretch that proves anything: not a few seconds with nothing before them."""
        return _LEAST_FALL_S if self._is_young else SPANS_S[0]

    @property
    def _is_young(self) -> bool:
        """Whether measuring has just begun, or begun again."""
        return sum(part.length_s for part in self.slices) < YOUNG_S

    def rate(self, span_s: float, until_s: float = 0.0) -> float:
        """Over a stretch that ends so many seconds ago; 0 where nothing was measured."""
        return _rate(self._within(span_s, until_s))

    def sigma(self, rps: float, span_s: float) -> float:
        """Standard deviation of the rate measured over a stretch of a steady load."""
        return sqrt(self._dispersion * rps / span_s)

    def sure(self, span_s: float) -> float:
        """What the rate of the newest stretch proves: more where chance does not explain it."""
        slices = self._within(span_s)
        length_s = sum(part.length_s for part in slices)
        if not length_s:
            return 0.0
        found = _rate(slices)
        sigmas = KNOWN_SIGMAS if self.surges(span_s, self._step_sigmas) else SURE_SIGMAS
        return max(0.0, found - sigmas * self.sigma(found, length_s))

    def steady(self, span_s: float) -> float:
        """The rate over a long stretch; only what it proves while less than half of it was seen.

        After a restart or an outage a few seconds are all there is, and chance is most of them.
        """
        is_known = self._is_covered(span_s) and not self._is_young
        return self.rate(span_s) if is_known else self.sure(span_s)

    def steady_span(self, spans_s: Sequence[float]) -> float:
        """The longest of the stretches, longest first, that no newer one refutes."""
        seen = [span_s for span_s in spans_s if self._is_covered(span_s)]
        return next((each for each in seen if not self.has_fallen(each)), spans_s[0])

    def has_fallen(self, span_s: float) -> bool:
        """Whether a newer stretch proves that the rate of a long one is no longer offered."""
        rate = self.rate(span_s)
        return any(
            self.rate(newer_s) + FALL_SIGMAS * self.sigma(rate, newer_s) < rate
            for newer_s in SPANS_S
            if _LEAST_FALL_S <= newer_s < span_s and self._is_covered(newer_s)
        )

    def _is_covered(self, span_s: float) -> bool:
        """Whether half of a stretch was measured: where nothing was, nothing has fallen."""
        return sum(part.length_s for part in self._within(span_s)) >= span_s / 2

    def surges(self, span_s: float, sigmas: float = SURGE_SIGMAS) -> bool:
        """Whether chance does not explain the newest stretch by what came before it."""
        before = self._within(_SHORTEST_LONG_S - span_s, span_s)
        length_s = sum(part.length_s for part in before)
        if length_s < span_s:
            return False
        base = _rate(before)
        usual = max(base, 1.0 / span_s)
        sigmas += self._skewed(sigmas, usual * span_s)
        return self.rate(span_s) > base + sigmas * self.sigma(usual, span_s)

    def _skewed(self, sigmas: float, requests: float) -> float:
        """Standard deviations more that chance reaches as often where only few requests come.

        One prompt of ten times the mean is no surge. The first term of Cornish and Fisher (1938)
        for a Poisson number of requests whose sizes are of a gamma distribution.
        """
        varied = self._dispersion - 1.0
        skewness = (1.0 + 2.0 * varied) / sqrt((1.0 + varied) * requests)
        return skewness * (sigmas * sigmas - 1.0) / 6.0

    def carried_on(self, horizon_s: float, since_s: float) -> float:
        """The most that a line through the last minutes proves for the end of the horizon.

        The short one follows a slope that has just begun, the long one knows a gentle slope.
        """
        end_s = self.slices[-1].end_s
        parts = [part for part in self._parts() if part.start_s >= since_s]
        return max(self._line(parts, line_s, end_s, end_s + horizon_s) for line_s in LINES_S)

    def _line(self, parts: Sequence[Part], line_s: float, end_s: float, until_s: float) -> float:
        """What one line proves; it goes no farther ahead than it comes from."""
        through = [part for part in parts if part.middle_s >= end_s - line_s]
        if not through:
            return 0.0
        return carried_on(
            through,
            self._dispersion,
            until_s=min(until_s, 2 * end_s - through[0].start_s),
            part_s=line_s / LINE_PARTS,
            sigmas=SURE_SIGMAS,
        )

    def _parts(self) -> list[Part]:
        """All that is known, oldest first: minutes, then the slices after them."""
        parts = [
            Part(each.start_s, each.end_s, self._work(each.tokens, each.requests))
            for each in self._minutes
        ]
        known_s = parts[-1].end_s if parts else 0.0
        return [*parts, *(p for p in self.slices if p.start_s >= known_s - 1e-6 and p.length_s)]

    def _clustering(self) -> float:
        """Index of dispersion of the slices' tokens, from the differences of neighbours.

        So no trend counts as chance (von Neumann); nor does a step, which is the largest of the
        differences. The variance of a rate measured over a slice is the dispersion times the
        rate over the slice's length, and that of a difference the sum of both.
        """
        slices = [part for part in self.slices if part.length_s]
        rate = _rate(slices)
        if len(slices) < _LEAST_SLICES or not rate:
            return 1.0
        squares = sorted(
            (after.requests / after.length_s - before.requests / before.length_s) ** 2
            / (1.0 / before.length_s + 1.0 / after.length_s)
            for before, after in pairwise(slices)
        )[:-1]
        return sum(squares) / len(squares) / rate

    def _within(self, span_s: float, until_s: float = 0.0) -> list[Part]:
        """Slices that lie in a stretch that ends so many seconds ago, for half of them at least."""
        end_s = self.slices[-1].end_s - until_s
        return [p for p in self.slices if end_s - span_s - 1e-6 <= p.middle_s < end_s - 1e-6]

    def _work(self, tokens: float, requests: float) -> float:
        """In requests of the mean prompt."""
        share = self._prompt_share
        return share * tokens / self._prompt_tokens + (1.0 - share) * requests


def _rate(parts: Sequence[Part]) -> float:
    length_s = sum(part.length_s for part in parts)
    return sum(part.requests for part in parts) / length_s if length_s else 0.0
