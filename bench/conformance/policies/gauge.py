"""What monitoring reads of the engines' gauges.

Prometheus drops the series of a target at its first failed scrape, so only pods that answered
lately count, those being emptied included.
"""

from __future__ import annotations

from enum import StrEnum

from paceline_operator.autopilot.vocabulary.fleet import DataClass, FleetObservation, PodObservation


class Gauge(StrEnum):
    """A gauge that autoscalers act on."""

    WAITING = "waiting"
    RUNNING = "running"
    IN_FLIGHT = "in_flight"
    KV_USAGE = "kv_usage"

    def of(self, pod: PodObservation) -> float:
        """Its value on one pod, at the last scrape."""
        return {
            Gauge.WAITING: float(pod.waiting),
            Gauge.RUNNING: float(pod.running),
            Gauge.IN_FLIGHT: float(pod.running + pod.waiting),
            Gauge.KV_USAGE: pod.kv_usage,
        }[self]

    def total(self, fleet: FleetObservation) -> float:
        """Sum over the pods that report; 0 where none does, as a sum of no series reads."""
        return sum(self.of(pod) for pod in reporting(fleet))


def reporting(fleet: FleetObservation) -> tuple[PodObservation, ...]:
    """Pods whose series are there."""
    return tuple(pod for pod in fleet.pods if pod.data is DataClass.FRESH)


def existing(fleet: FleetObservation) -> int:
    """Replicas as a Deployment counts them: pods not on their way out, ready or not."""
    return sum(not pod.draining for pod in fleet.pods)
