"""The HorizontalPodAutoscaler of Kubernetes.

Rule: every 15 s, replicas = ceil(replicas x metric / target), unless the ratio is within 10 %
of 1; the largest answer of all metrics; then `behavior` (see `scaling_behavior`). Pods that are
not ready count as idle when it scales up, those without metrics as idle when it scales up and
as on target when it scales down; a move whose direction that would turn is not made.
Source: Kubernetes, "Horizontal Pod Autoscaling" and `podautoscaler/replica_calculator.go`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Protocol

from bench.conformance.policies.cadence import AT_EVERY_SCRAPE, due_after
from bench.conformance.policies.gauge import Gauge, existing, reporting
from bench.conformance.policies.scaling_behavior import Behavior, Pace
from bench.conformance.policies.site import ReplicaBounds
from paceline_operator.autopilot.vocabulary.fleet import FleetObservation
from paceline_operator.autopilot.vocabulary.window import Counter
from paceline_operator.simulator.controller import NOTHING, Orders


@dataclass(frozen=True, slots=True, kw_only=True)
class HpaSettings:
    """Flags of the controller, and the object's `behavior`.

    Attributes:
        sync_s: `--horizontal-pod-autoscaler-sync-period`.
        tolerance: `--horizontal-pod-autoscaler-tolerance`.
        behavior: See there.
    """

    sync_s: float = 15.0
    tolerance: float = 0.1
    behavior: Behavior = field(default_factory=Behavior)


class Metric(Protocol):
    """One entry of `metrics`."""

    def replicas(self, fleet: FleetObservation, tolerance: float, now_s: float) -> int | None:
        """Replicas it asks for, None where it cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodsMetric:
    """A gauge of the pods, by its mean (`type: Pods`)."""

    gauge: Gauge
    target: float

    def replicas(self, fleet: FleetObservation, tolerance: float, now_s: float) -> int | None:
        """By the mean over ready pods."""
        values = [self.gauge.of(pod) for pod in reporting(fleet) if pod.serving]
        return by_pods(values, self.target, fleet, tolerance)


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuMetric:
    """CPU use over request (`type: Resource`), taken from the engine process's busy share.

    Attributes:
        target: `averageUtilization`; 80 % where an HPA names no metric at all.
        window_s: Resolution of the metrics server.
    """

    target: float = 0.8
    window_s: float = 15.0

    def replicas(self, fleet: FleetObservation, tolerance: float, now_s: float) -> int | None:
        """By the mean over ready pods; only the fleet's mean is known."""
        lately = fleet.last(self.window_s)
        if not lately.pod_seconds:
            return None
        share = min(1.0, lately.count(Counter.BUSY_SECONDS) / lately.pod_seconds)
        answered = sum(pod.serving for pod in reporting(fleet))
        return by_pods([share] * answered, self.target, fleet, tolerance)


@dataclass(frozen=True, slots=True, kw_only=True)
class AverageValueMetric:
    """A sum over the fleet against a target for each replica (`External`, `AverageValue`)."""

    gauge: Gauge
    target: float

    def replicas(self, fleet: FleetObservation, tolerance: float, now_s: float) -> int | None:
        """By the sum; a sum of nothing is 0, not unknown."""
        return by_total(self.gauge.total(fleet), self.target, existing(fleet), tolerance)


def by_total(total: float, target: float, replicas: int, tolerance: float) -> int:
    """Replicas for a sum and a target per replica; as many as there are within tolerance."""
    if replicas and abs(1 - total / (target * replicas)) <= tolerance:
        return replicas
    return ceil(total / target)


def by_pods(
    values: Sequence[float], target: float, fleet: FleetObservation, tolerance: float
) -> int | None:
    """Replicas for readings of single pods; None without any."""
    if not values:
        return None
    unready, missing = len(fleet.pending), len(fleet.serving) - len(values)
    ratio = sum(values) / len(values) / target
    filled = _filled(values, target, ratio, unready=unready, missing=missing)
    if len(filled) == len(values):
        return fleet.desired_replicas if _within(ratio, tolerance) else ceil(ratio * len(values))
    cautious = sum(filled) / len(filled) / target
    if _within(cautious, tolerance) or (ratio < 1) != (cautious < 1):
        return fleet.desired_replicas
    wanted = ceil(cautious * len(filled))
    turned = (wanted > fleet.desired_replicas) == (cautious < 1)
    return fleet.desired_replicas if turned else wanted


def _filled(
    values: Sequence[float], target: float, ratio: float, *, unready: int, missing: int
) -> list[float]:
    """The readings, with what is assumed of pods that gave none."""
    assumed = [target if ratio < 1 else 0.0] * missing
    idle = [0.0] * unready if ratio > 1 else []
    return [*values, *assumed, *idle]


def _within(ratio: float, tolerance: float) -> bool:
    return abs(1 - ratio) <= tolerance


class HorizontalPodAutoscaler:
    """A controller that sets replicas and nothing else.

    Args:
        metrics: What it scales on.
        bounds: `minReplicas` and `maxReplicas`.
        settings: Everything else.
    """

    def __init__(
        self,
        metrics: Sequence[Metric],
        bounds: ReplicaBounds,
        settings: HpaSettings | None = None,
    ) -> None:
        self._metrics = tuple(metrics)
        self._settings = settings or HpaSettings()
        self._pace = Pace(self._settings.behavior, bounds)
        self._next_due_s = AT_EVERY_SCRAPE

    @property
    def next_due_s(self) -> float:
        """One sync period after the last sync."""
        return self._next_due_s

    def decide(self, fleet: FleetObservation, now_s: float) -> Orders:
        """One sync."""
        self._next_due_s = due_after(now_s, self._settings.sync_s)
        wanted = self._wanted(fleet, now_s)
        if wanted is None:
            return NOTHING
        current = fleet.desired_replicas
        after = self._pace.settled(wanted, current, now_s)
        return NOTHING if after == current else Orders(replicas=after, reason="Hpa")

    def _wanted(self, fleet: FleetObservation, now_s: float) -> int | None:
        """The largest answer; with one unreadable metric it never scales down."""
        tolerance = self._settings.tolerance
        answers = [metric.replicas(fleet, tolerance, now_s) for metric in self._metrics]
        known = [answer for answer in answers if answer is not None]
        if not known:
            return None
        blind = len(known) < len(answers)
        return None if blind and max(known) < fleet.desired_replicas else max(known)
