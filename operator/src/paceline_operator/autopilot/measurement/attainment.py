"""Objectives against what was measured, with the uncertainty of small samples."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt

from paceline_operator.api.v1alpha1 import SloMetric, Tier
from paceline_operator.autopilot.vocabulary.decision import SloMeasurement
from paceline_operator.autopilot.vocabulary.fleet import FleetObservation
from paceline_operator.autopilot.vocabulary.policy import Objective
from paceline_operator.autopilot.vocabulary.window import (
    Counter,
    Histogram,
    Latency,
    StepClass,
    Window,
    slo_key,
)

ENOUGH_SAMPLES = 100
LEAST_SAMPLES = 20
LONGEST_WINDOW_S = 300.0
ONE_SIDED_90 = 1.2816

LATENCY_OF = {
    SloMetric.TTFT: Latency.TTFT,
    SloMetric.ITL: Latency.ITL,
    SloMetric.TPOT: Latency.TPOT,
    SloMetric.E2E: Latency.E2E,
}


def wilson(share: float, samples: float, z: float = ONE_SIDED_90) -> tuple[float, float]:
    """Wilson score interval of a share; (0, 1) without samples."""
    if samples <= 0:
        return 0.0, 1.0
    centre = (share + z * z / (2 * samples)) / (1 + z * z / samples)
    half = z * sqrt(share * (1 - share) / samples + (z / (2 * samples)) ** 2)
    half /= 1 + z * z / samples
    return max(0.0, centre - half), min(1.0, centre + half)


def measure(objective: Objective, window: Window) -> SloMeasurement:
    """One objective over one window.

    Engine steps, not gaps, count as the samples of ITL: the gaps of one step are copies.
    """
    found = counts(objective, window)
    samples = _independent(objective, window, found.total)
    value = _histogram(objective, window).quantile(objective.share)
    return SloMeasurement(
        name=objective.name,
        metric=objective.metric,
        percentile=objective.percentile,
        target_ms=objective.target_ms,
        attainment=found.share,
        low=found.low,
        high=found.high,
        edges_ms=found.edges_ms,
        measured_ms=None if value is None else 1e3 * value,
        samples=round(samples),
        window_s=window.length_s,
        met=_met(found, samples, objective.share),
    )


def measure_lately(objective: Objective, fleet: FleetObservation) -> SloMeasurement:
    """Over the objective's own window, grown until there are samples enough.

    Without any sample in its own window there is no measurement, however much there was before.
    """
    length_s = float(objective.window_s)
    last_s = _last_sample_s(objective, fleet)
    while True:
        found = replace(measure(objective, _until_now(fleet, length_s)), measured_at_s=last_s)
        if not found.samples or found.samples >= ENOUGH_SAMPLES or length_s >= LONGEST_WINDOW_S:
            return found
        length_s = min(2 * length_s, LONGEST_WINDOW_S)


def _until_now(fleet: FleetObservation, length_s: float) -> Window:
    """Measurements of the time before now, whether or not the newest slice is from now."""
    return fleet.since(fleet.now_s - length_s)


def _last_sample_s(objective: Objective, fleet: FleetObservation) -> float | None:
    ends = (w.end_s for w in reversed(fleet.slices) if counts(objective, w).total)
    return next(ends, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Samples of one objective, with what a histogram's edges leave open.

    Attributes:
        good: Samples within the target.
        total: All of them.
        least: Fewest good ones that are possible.
        most: Most that are possible.
        edges_ms: Edges next to the target, None where the counts are exact.
    """

    good: float
    total: float
    least: float
    most: float
    edges_ms: tuple[float, float] | None = None

    @property
    def share(self) -> float | None:
        """Share of good samples, None without samples."""
        return self.good / self.total if self.total else None

    @property
    def low(self) -> float | None:
        """Least share that is possible."""
        return self.least / self.total if self.total else None

    @property
    def high(self) -> float | None:
        """Greatest share that is possible."""
        return self.most / self.total if self.total else None


def counts(objective: Objective, window: Window) -> Counts:
    """Exact where the engine counts against the target, else from the histogram.

    A histogram knows no request that was refused: it has no latency, and is missed all the same.
    An engine that counts against the target has counted those itself, sample or not.
    """
    key = slo_key(objective.name, objective.metric, objective.target_ms, objective.tier)
    exact = window.slo.get(key)
    if exact is not None and exact.total:
        return Counts(good=exact.good, total=exact.total, least=exact.good, most=exact.good)
    found, target_s = _histogram(objective, window), objective.target_ms / 1e3
    refused = _refused(objective, window) if exact is None else 0.0
    below_s, above_s = found.around(target_s)
    return Counts(
        good=found.below(target_s),
        total=found.samples + refused,
        least=found.up_to(below_s),
        most=found.up_to(above_s),
        edges_ms=None if below_s == above_s else (1e3 * below_s, 1e3 * above_s),
    )


def _refused(objective: Objective, window: Window) -> float:
    """Refusals for want of capacity of the objective's own tier, as far as a window tells them."""
    if objective.tier is not Tier.INTERACTIVE or objective.metric is SloMetric.ITL:
        return 0.0
    return window.count(Counter.REQUESTS_REJECTED)


def _histogram(objective: Objective, window: Window) -> Histogram:
    return window.histogram(LATENCY_OF[objective.metric], objective.tier)


def _independent(objective: Objective, window: Window, total: float) -> float:
    if objective.metric is not SloMetric.ITL:
        return total
    steps = window.moments(StepClass.DECODE_ONLY, StepClass.MIXED).count
    return min(total, steps) if steps else total


def _met(found: Counts, samples: float, wanted: float) -> bool | None:
    """Held by the least that is possible, missed by the most and beyond chance, else open."""
    if found.low is None or found.high is None:
        return None
    if found.low >= wanted:
        return True
    proven = samples >= LEAST_SAMPLES and wilson(found.high, samples)[1] < wanted
    return False if proven else None
