"""The frame of the llm-d Workload Variant Autoscaler: its own loop, an HPA behind it.

Rule: every 60 s an analyzer says how many replicas are wanted; an HPA on that number
(`AverageValue` 1) carries it out, with windows of 120 s both ways and at most doubling in 15 s.
The HPA's tolerance of 10 % is left out: it would swallow single replicas above ten.
Source: llm-d, `guides/workload-autoscaling` (`hpa.yaml`) and WVA's `GLOBAL_OPT_INTERVAL` of 60 s;
its charts have had windows of 0 and 240 s as well.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from bench.conformance.policies.cadence import AT_EVERY_SCRAPE, EARLY_S
from bench.conformance.policies.gauge_history import GaugeHistory, Peak
from bench.conformance.policies.scaling_behavior import Behavior, Limit, Pace
from bench.conformance.policies.site import ReplicaBounds
from paceline_operator.autopilot.vocabulary.fleet import FleetObservation
from paceline_operator.simulator.controller import NOTHING, Orders

_DOUBLE = (Limit(percent=100),)
_BEHAVIOR = Behavior(up_window_s=120.0, down_window_s=120.0, up_limits=_DOUBLE, down_limits=_DOUBLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class WvaSettings:
    """Of the loop and of the HPA behind it.

    Attributes:
        interval_s: `GLOBAL_OPT_INTERVAL`.
        peak_window_s: `max_over_time` of the gauges.
        sync_s: Of the HPA.
        behavior: Of the HPA.
    """

    interval_s: float = 60.0
    peak_window_s: float = 60.0
    sync_s: float = 15.0
    behavior: Behavior = field(default_factory=lambda: _BEHAVIOR)


class Analyzer(Protocol):
    """Says how many replicas are wanted."""

    def wanted(
        self, fleet: FleetObservation, peaks: tuple[Peak, ...], target: int | None
    ) -> int | None:
        """Replicas, None to leave the target as it is; that is None at first."""


class WorkloadVariantAutoscaler:
    """Analyzer and HPA in a row.

    Args:
        analyzer: Version 1 or 2.
        bounds: Fewest and most replicas.
        settings: Of loop and HPA.
    """

    def __init__(
        self, analyzer: Analyzer, bounds: ReplicaBounds, settings: WvaSettings | None = None
    ) -> None:
        self._analyzer = analyzer
        self._bounds = bounds
        self._settings = settings or WvaSettings()
        self._peaks = GaugeHistory(self._settings.peak_window_s)
        self._pace = Pace(self._settings.behavior, bounds)
        self._target: int | None = None
        self._analysed_at_s = self._synced_at_s = float("-inf")

    @property
    def next_due_s(self) -> float:
        """Every scrape, for the peaks."""
        return AT_EVERY_SCRAPE

    def decide(self, fleet: FleetObservation, now_s: float) -> Orders:
        """Notes the gauges; analyses and syncs where due."""
        self._peaks.note(fleet, now_s)
        if now_s - self._analysed_at_s >= self._settings.interval_s - EARLY_S:
            self._analysed_at_s = now_s
            wanted = self._analyzer.wanted(fleet, self._peaks.peaks(fleet), self._target)
            if wanted is not None:
                self._target = self._bounds.clamp(wanted)
        if now_s - self._synced_at_s < self._settings.sync_s - EARLY_S or self._target is None:
            return NOTHING
        self._synced_at_s = now_s
        current = fleet.desired_replicas
        after = self._pace.settled(self._target, current, now_s)
        return NOTHING if after == current else Orders(replicas=after, reason="Wva")
