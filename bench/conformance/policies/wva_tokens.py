"""Version 2 of the WVA's saturation analysis: capacity and demand in tokens.

Rule: a replica holds min(k1, k2) tokens, k1 = 80 % of its KV cache, k2 = what was in use while
at least 5 requests waited, else the mean of the last 10 such readings for answers of that length
(under 100, under 500, longer), else N (I + O/2) with N = min(B O / (I + O), sequences). Demand =
tokens in use + waiting requests x I. Replicas are added while demand / 0.85 exceeds what all
replicas hold, those on their way included, and removed as far as demand / 0.70 stays below what
the ready ones hold.
Source: llm-d WVA, `analyzers/saturation_v2/analyzer.go`, `docs/developer-guide/
saturation-scaling-config.md` (the default since v0.9.0).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import ceil, floor
from statistics import median

from bench.conformance.policies.gauge_history import Peak
from paceline_operator.autopilot.vocabulary.fleet import FleetObservation
from paceline_operator.autopilot.vocabulary.window import Latency

SHAPE_WINDOW_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenThresholds:
    """The ConfigMap.

    Attributes:
        kv_usage: `kvCacheThreshold`.
        queue_length: `queueLengthThreshold`.
        up: `scaleUpThreshold`.
        down: `scaleDownBoundary`.
        readings: Kept of k2 for each length of answers.
    """

    kv_usage: float = 0.80
    queue_length: float = 5.0
    up: float = 0.85
    down: float = 0.70
    readings: int = 10


@dataclass(frozen=True, slots=True)
class Shape:
    """Mean prompt and answer, in tokens; 0 where nothing was asked or answered lately."""

    prompt: float
    answer: float

    @property
    def answer_class(self) -> str:
        """By which readings of k2 are kept apart."""
        if self.answer < 100:
            return "short"
        return "medium" if self.answer < 500 else "long"


class TokenAnalyzer:
    """As many replicas as the tokens in use and waiting need.

    Args:
        thresholds: The ConfigMap.
    """

    def __init__(self, thresholds: TokenThresholds | None = None) -> None:
        self._thresholds = thresholds or TokenThresholds()
        self._seen: dict[str, deque[float]] = {}

    def wanted(
        self, fleet: FleetObservation, peaks: tuple[Peak, ...], target: int | None
    ) -> int | None:
        """More where demand is above the upper threshold, fewer where it is below the lower."""
        known = [peak for peak in peaks if peak.pod.kv_capacity_tokens]
        if not known:
            return None
        shape = _shape(fleet)
        each = median([self._holds(peak, shape) for peak in known])
        if each <= 0:
            return None
        t, ready, current = self._thresholds, len(known), fleet.desired_replicas
        demand = sum(_in_use(peak) + peak.waiting * shape.prompt for peak in known)
        missing = demand / t.up - (ready + len(fleet.pending)) * each
        if missing > 0:
            return current + ceil(missing / each)
        spare = ready * each - demand / t.down
        return current - floor(spare / each) if spare > 0 else current

    def _holds(self, peak: Peak, shape: Shape) -> float:
        """Tokens one replica holds."""
        by_memory = self._thresholds.kv_usage * (peak.pod.kv_capacity_tokens or 0)
        return min(by_memory, self._by_compute(peak, shape) or by_memory)

    def _by_compute(self, peak: Peak, shape: Shape) -> float:
        """k2; 0 where nothing says anything about it."""
        in_use = _in_use(peak)
        if peak.waiting >= self._thresholds.queue_length and in_use > 0:
            kept = deque[float](maxlen=self._thresholds.readings)
            self._seen.setdefault(shape.answer_class, kept).append(in_use)
            return in_use
        seen = self._seen.get(shape.answer_class)
        return sum(seen) / len(seen) if seen else _derived(peak, shape)


def _in_use(peak: Peak) -> float:
    return peak.kv_usage * (peak.pod.kv_capacity_tokens or 0)


def _derived(peak: Peak, shape: Shape) -> float:
    """k2 from the engine's arguments."""
    knobs = peak.pod.tunables
    if knobs is None or shape.answer <= 0:
        return 0.0
    steady = knobs.effective * shape.answer / (shape.prompt + shape.answer)
    return min(steady, knobs.running_seqs) * (shape.prompt + shape.answer / 2)


def _shape(fleet: FleetObservation) -> Shape:
    lately = fleet.last(SHAPE_WINDOW_S)
    return Shape(
        prompt=lately.histogram(Latency.PROMPT_TOKENS).mean,
        answer=lately.histogram(Latency.GENERATION_TOKENS).mean,
    )
