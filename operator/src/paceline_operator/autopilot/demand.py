"""How much will be offered when a replica ordered now serves."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from paceline_operator.autopilot.fleet import FleetObservation
from paceline_operator.autopilot.window import Counter, Window
from paceline_operator.autopilot.workload import Workload

SURGE_SIGMAS = 3.0
_RECENT_S = (5.0, 10.0, 15.0)
_SHORT_S = 30.0
_TREND_S = 60.0
_LEAST_BASE_S = 15.0
_SHORTEST_LONG_S = 60.0
_LONGEST_LONG_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """Offered load, in requests of the mean size per second: token work, not a head count.

    Attributes:
        now_rps: Over the last 30 s, or since a surge began.
        forecast_rps: Expected over the next cold start, noise allowance included.
        surging: Whether the newest slices lie far above what came before.
    """

    now_rps: float = 0.0
    forecast_rps: float = 0.0
    surging: bool = False


def forecast(
    fleet: FleetObservation, workload: Workload, *, horizon_s: float, memory_s: float
) -> Demand:
    """Forecast from offered prompt tokens: accepted, refused, and gone while waiting.

    Args:
        fleet: Slices of measurements.
        workload: For the mean prompt and its variation.
        horizon_s: How far ahead: a cold start and a tick.
        memory_s: How long a high rate is remembered.
    """
    if not fleet.slices:
        return Demand()
    end_s = fleet.slices[-1].end_s
    long_s = min(_LONGEST_LONG_S, max(_SHORTEST_LONG_S, memory_s))
    short = _rate(fleet, workload, end_s - _SHORT_S, end_s)
    long = _rate(fleet, workload, end_s - long_s, end_s)
    surge = _surge(fleet, workload)
    now = max(short, surge or 0.0)
    # A step is no slope: carried on, it would order far too much.
    level = now if surge is not None else max(now, long, _trend(fleet, workload, horizon_s))
    # A sum of random prompts varies more than a count of requests does.
    dispersion = min(10.0, 1.0 + workload.prompt_cv2)
    noise = sqrt(dispersion * level / max(horizon_s, _SHORT_S))
    return Demand(
        now_rps=now, forecast_rps=level + noise if level else 0.0, surging=surge is not None
    )


def _rate(fleet: FleetObservation, workload: Workload, start_s: float, end_s: float) -> float:
    """Rate over the slices that begin in [start, end); 0 without any."""
    slices = _between(fleet, start_s, end_s)
    length_s = sum(w.length_s for w in slices)
    tokens = sum(w.count(Counter.PROMPT_TOKENS_RECEIVED) for w in slices)
    return tokens / length_s / max(1.0, workload.prompt_mean) if length_s else 0.0


def _between(fleet: FleetObservation, start_s: float, end_s: float) -> list[Window]:
    return [w for w in fleet.slices if start_s - 1e-6 <= w.start_s < end_s - 1e-6]


def _surge(fleet: FleetObservation, workload: Workload) -> float | None:
    """Highest rate of the newest seconds that chance does not explain, None without one."""
    found = [
        rate
        for seconds in _RECENT_S
        if (rate := _unexplained(fleet, workload, seconds)) is not None
    ]
    return max(found, default=None)


def _unexplained(fleet: FleetObservation, workload: Workload, seconds: float) -> float | None:
    end_s = fleet.slices[-1].end_s
    earlier = _between(fleet, end_s - _TREND_S, end_s - seconds)
    if sum(w.length_s for w in earlier) < _LEAST_BASE_S:
        return None
    base_rps = _rate(fleet, workload, end_s - _TREND_S, end_s - seconds)
    rate = _rate(fleet, workload, end_s - seconds, end_s)
    spread = sqrt((1.0 + workload.prompt_cv2) * max(base_rps, 1.0 / seconds) / seconds)
    return rate if rate > base_rps + SURGE_SIGMAS * spread else None


def _trend(fleet: FleetObservation, workload: Workload, horizon_s: float) -> float:
    """Half of the last minute's slope, carried on over the horizon; 0 while it falls."""
    end_s = fleet.slices[-1].end_s
    half_s = end_s - _SHORT_S
    before = _between(fleet, end_s - _TREND_S, half_s)
    if sum(w.length_s for w in before) < _LEAST_BASE_S:
        return 0.0
    later = _rate(fleet, workload, half_s, end_s)
    earlier = _rate(fleet, workload, end_s - _TREND_S, half_s)
    slope = (later - earlier) / (_TREND_S - _SHORT_S)
    return later + 0.5 * slope * min(horizon_s, _TREND_S) if slope > 0 else 0.0
