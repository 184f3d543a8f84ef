"""KEDA: Prometheus triggers that an HPA of its making acts on.

Rule: for each trigger, replicas = ceil(sum / threshold), unless within 10 % of what there is;
the largest of them; then the HPA's `behavior`. A series that is gone reads as 0
(`ignoreNullValues`). `pollingInterval` (30 s) and `cooldownPeriod` (300 s) are about the step
from and to zero replicas; from one replica on the HPA asks every 15 s, or gets a value of that
age where `useCachedMetrics` is set.
Source: KEDA, ScaledObject specification and Prometheus scaler; llm-d, guide
`keda-epp-queue` (thresholds 1 waiting and 16 running, a note on `cooldownPeriod`); vLLM
production stack, "Autoscaling with KEDA" (`vllm:num_requests_waiting`, threshold 5).
"""

from __future__ import annotations

from dataclasses import dataclass

from bench.conformance.policies.cadence import EARLY_S
from bench.conformance.policies.gauge import Gauge, existing
from bench.conformance.policies.hpa import HorizontalPodAutoscaler, HpaSettings, by_total
from bench.conformance.policies.site import ReplicaBounds
from paceline_operator.autopilot.vocabulary.fleet import FleetObservation


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """One Prometheus trigger, `metricType: AverageValue`.

    Attributes:
        gauge: What its query sums over the fleet.
        threshold: Wanted for each replica.
    """

    gauge: Gauge
    threshold: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaledObject:
    """What a user writes.

    Attributes:
        triggers: Each asks for replicas; the largest answer counts.
        polling_s: `pollingInterval`.
        use_cached_metrics: Whether values are refreshed no sooner than every `polling_s`.
    """

    triggers: tuple[Trigger, ...]
    polling_s: float = 30.0
    use_cached_metrics: bool = False


WAITING = ScaledObject(triggers=(Trigger(gauge=Gauge.WAITING, threshold=5.0),))
KV_USAGE = ScaledObject(triggers=(Trigger(gauge=Gauge.KV_USAGE, threshold=0.8),))
RUNNING = ScaledObject(triggers=(Trigger(gauge=Gauge.IN_FLIGHT, threshold=16.0),))
"""The gateway of llm-d counts a request as running until its answer ends, queued or not."""


class _TriggerMetric:
    """A trigger as the HPA sees it."""

    def __init__(self, trigger: Trigger, refresh_s: float) -> None:
        self._trigger = trigger
        self._refresh_s = refresh_s
        self._read_at_s = float("-inf")
        self._total = 0.0

    def replicas(self, fleet: FleetObservation, tolerance: float, now_s: float) -> int | None:
        """By the sum of its query."""
        if now_s - self._read_at_s >= self._refresh_s - EARLY_S:
            self._total, self._read_at_s = self._trigger.gauge.total(fleet), now_s
        return by_total(self._total, self._trigger.threshold, existing(fleet), tolerance)


def keda(
    scaled_object: ScaledObject, bounds: ReplicaBounds, settings: HpaSettings | None = None
) -> HorizontalPodAutoscaler:
    """The HPA that KEDA makes of it."""
    refresh_s = scaled_object.polling_s if scaled_object.use_cached_metrics else 0.0
    metrics = [_TriggerMetric(trigger, refresh_s) for trigger in scaled_object.triggers]
    return HorizontalPodAutoscaler(metrics, bounds, settings)
