"""Scaling on the tail of the latencies over their targets, as the SLO-aware guide of llm-d does.

Rule: every 15 s, s = max(p90 TTFT / target, p90 TPOT / target) over a minute, 0 without traffic,
at most 2, averaged over 45 s. Above 0.55: replicas + ceil(replicas x (s r / n / 0.55 - 1)), r of n
being ready; below 0.40: replicas - floor(replicas x (1 - s / 0.40)). Behind it an HPA: up by the
larger of doubling and 4 pods a minute (window 30 s), down by one pod in 120 s (window 180 s).
Source: llm-d, `guides/workload-autoscaling/README.slo-aware.md` (the fallback on measured
latencies; its predicted ones come from a router that learns); WVA, `epp-saturation` analyzer.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from math import ceil, floor

from bench.conformance.policies.cadence import AT_EVERY_SCRAPE, due_after
from bench.conformance.policies.scaling_behavior import Behavior, Limit, Pace
from bench.conformance.policies.site import ReplicaBounds
from paceline_operator.autopilot.vocabulary.fleet import FleetObservation
from paceline_operator.autopilot.vocabulary.window import Latency, Window
from paceline_operator.simulator.controller import NOTHING, Orders

_BEHAVIOR = Behavior(
    up_window_s=30.0,
    down_window_s=180.0,
    up_limits=(Limit(percent=100, period_s=60.0), Limit(pods=4, period_s=60.0)),
    down_limits=(Limit(pods=1, period_s=120.0),),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SaturationSettings:
    """Recording rules and ScaledObject of the guide.

    Attributes:
        quantile: Of the latencies.
        window_s: Of the quantile.
        cap: Of a single reading.
        smoothing_s: Over which readings are averaged.
        up: Saturation above which replicas are added.
        down: Saturation below which they are removed.
        sync_s: Of recording rules and HPA.
        behavior: Of the HPA.
    """

    quantile: float = 0.90
    window_s: float = 60.0
    cap: float = 2.0
    smoothing_s: float = 45.0
    up: float = 0.55
    down: float = 0.40
    sync_s: float = 15.0
    behavior: Behavior = field(default_factory=lambda: _BEHAVIOR)


class LatencySaturation:
    """A controller after the guide.

    Args:
        ttft_ms: Target of the first token.
        tpot_ms: Target of a request's mean gap.
        bounds: Fewest and most replicas.
        settings: Thresholds and windows.
    """

    def __init__(
        self,
        ttft_ms: float,
        tpot_ms: float,
        bounds: ReplicaBounds,
        settings: SaturationSettings | None = None,
    ) -> None:
        self._targets = ((Latency.TTFT, ttft_ms), (Latency.TPOT, tpot_ms))
        self._settings = settings or SaturationSettings()
        self._pace = Pace(self._settings.behavior, bounds)
        self._readings: deque[tuple[float, float]] = deque()
        self._next_due_s = AT_EVERY_SCRAPE

    @property
    def next_due_s(self) -> float:
        """One sync period after the last."""
        return self._next_due_s

    def decide(self, fleet: FleetObservation, now_s: float) -> Orders:
        """One sync."""
        self._next_due_s = due_after(now_s, self._settings.sync_s)
        current = fleet.desired_replicas
        wanted = self._wanted(fleet, self._smoothed(fleet, now_s))
        after = self._pace.settled(wanted, current, now_s)
        return NOTHING if after == current else Orders(replicas=after, reason="Saturation")

    def _smoothed(self, fleet: FleetObservation, now_s: float) -> float:
        s, readings = self._settings, self._readings
        readings.append((now_s, min(s.cap, self._reading(fleet.last(s.window_s)))))
        while readings[0][0] <= now_s - s.smoothing_s:
            readings.popleft()
        return sum(value for _, value in readings) / len(readings)

    def _reading(self, window: Window) -> float:
        shares = (
            1e3 * (window.histogram(latency).quantile(self._settings.quantile) or 0.0) / target_ms
            for latency, target_ms in self._targets
        )
        return max(shares)

    def _wanted(self, fleet: FleetObservation, saturation: float) -> int:
        now, ready = fleet.desired_replicas, len(fleet.serving)
        if saturation > self._settings.up:
            credit = ready / now if 0 < ready < now else 1.0
            return now + max(0, ceil(now * (saturation * credit / self._settings.up - 1)))
        if saturation < self._settings.down:
            return now - floor(now * (1 - saturation / self._settings.down))
        return now
