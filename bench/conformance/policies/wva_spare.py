"""Version 1 of the WVA's saturation analysis: spare capacity in shares.

Rule: a replica is saturated at 80 % of its KV cache or 5 waiting requests (peaks of a minute).
One replica more where the others spare less than 10 % of the cache or 3 waiting requests on
average; one less where at least two are unsaturated and, with the load of N spread over N - 1,
still spare that much. Nothing while replicas are on their way or do not report.
Source: llm-d WVA, `docs/user-guide/saturation-analyzer.md`, ConfigMap
`wva-saturation-scaling-config`.
"""

from __future__ import annotations

from dataclasses import dataclass

from bench.conformance.policies.gauge import existing
from bench.conformance.policies.gauge_history import Peak
from paceline_operator.autopilot.vocabulary.fleet import FleetObservation

LEAST_UNSATURATED = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SpareThresholds:
    """The ConfigMap.

    Attributes:
        kv_usage: `kvCacheThreshold`.
        queue_length: `queueLengthThreshold`.
        kv_spare: `kvSpareTrigger`.
        queue_spare: `queueSpareTrigger`.
    """

    kv_usage: float = 0.80
    queue_length: float = 5.0
    kv_spare: float = 0.10
    queue_spare: float = 3.0


@dataclass(frozen=True, slots=True)
class SpareAnalyzer:
    """One replica at a time, by what the unsaturated ones spare."""

    thresholds: SpareThresholds = SpareThresholds()

    def wanted(
        self, fleet: FleetObservation, peaks: tuple[Peak, ...], target: int | None
    ) -> int | None:
        """One more, one less, or as many as report."""
        ready = len(peaks)
        moving = target is not None and target != fleet.desired_replicas
        if moving or not ready or not ready == existing(fleet) == fleet.desired_replicas:
            return None
        free = [peak for peak in peaks if not self._saturated(peak)]
        kv_spare, queue_spare = self._spare(free)
        if self._short(kv_spare, queue_spare):
            return ready + 1
        return ready - 1 if self._safe_without_one(free, kv_spare, queue_spare) else ready

    def _saturated(self, peak: Peak) -> bool:
        t = self.thresholds
        return peak.kv_usage >= t.kv_usage or peak.waiting >= t.queue_length

    def _spare(self, free: list[Peak]) -> tuple[float, float]:
        """Mean spare share of the cache and mean spare places in the queue."""
        if not free:
            return 0.0, 0.0
        t = self.thresholds
        kv = sum(t.kv_usage - peak.kv_usage for peak in free) / len(free)
        queue = sum(t.queue_length - peak.waiting for peak in free) / len(free)
        return kv, queue

    def _short(self, kv_spare: float, queue_spare: float) -> bool:
        return kv_spare < self.thresholds.kv_spare or queue_spare < self.thresholds.queue_spare

    def _safe_without_one(self, free: list[Peak], kv_spare: float, queue_spare: float) -> bool:
        if len(free) < LEAST_UNSATURATED:
            return False
        t, denser = self.thresholds, len(free) / (len(free) - 1)
        kv_left = t.kv_usage - (t.kv_usage - kv_spare) * denser
        queue_left = t.queue_length - (t.queue_length - queue_spare) * denser
        return not self._short(kv_left, queue_left)
