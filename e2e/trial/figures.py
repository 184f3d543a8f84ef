"""Figures of a fleet under load, seen or predicted, and how far two of them lie apart. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil

from e2e.load.record import Outcome, Record
from e2e.load.report import itl_attainment, ttft_attainment, ttft_good

MAX_POINTS = 5.0
"""Percentage points that an attainment may lie from its prediction."""
MAX_HOURS_SHARE = 0.15
"""Share by which replica-hours may."""


@dataclass(frozen=True, slots=True)
class Share:
    """Good samples of all."""

    good: int
    total: int

    @property
    def percent(self) -> float:
        """Of good ones; 100 where nothing was measured."""
        return 100.0 * self.good / self.total if self.total else 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What a load came to.

    Attributes:
        ttft: Requests whose first token was in time.
        itl: Gaps between tokens that were.
        goodput: Requests that were whole and met both objectives.
        replica_hours: Of all pods, from their making to their end.
        replicas_least: Fewest ready pods.
        replicas_most: Most ready pods.
    """

    ttft: Share
    itl: Share
    goodput: Share
    replica_hours: float
    replicas_least: int
    replicas_most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Seen less predicted.

    Attributes:
        ttft_points: Percentage points of TTFT attainment.
        itl_points: Of ITL attainment.
        goodput_points: Of goodput attainment.
        hours_share: Of replica-hours, as a share of the predicted ones.
    """

    ttft_points: float
    itl_points: float
    goodput_points: float
    hours_share: float

    @property
    def worst_points(self) -> float:
        """Largest distance of the attainments, either way."""
        return max(abs(self.ttft_points), abs(self.itl_points), abs(self.goodput_points))


def compare(seen: Figures, predicted: Figures) -> Difference:
    """How far the fleet lies from its prediction."""
    return Difference(
        ttft_points=seen.ttft.percent - predicted.ttft.percent,
        itl_points=seen.itl.percent - predicted.itl.percent,
        goodput_points=seen.goodput.percent - predicted.goodput.percent,
        hours_share=seen.replica_hours / predicted.replica_hours - 1.0,
    )


def misses(difference: Difference) -> list[str]:
    """What lies further from the prediction than it may, in words."""
    points = (
        ("TTFT attainment", difference.ttft_points),
        ("ITL attainment", difference.itl_points),
        ("goodput", difference.goodput_points),
    )
    found = [
        f"{name} lies {value:+.1f} points from the prediction, {MAX_POINTS:g} allowed"
        for name, value in points
        if abs(value) > MAX_POINTS
    ]
    if abs(difference.hours_share) > MAX_HOURS_SHARE:
        found.append(
            f"replica-hours lie {difference.hours_share:+.0%} from the prediction, "
            f"{MAX_HOURS_SHARE:.0%} allowed"
        )
    return found


def replica_hours(counts: Sequence[tuple[float, int]], from_s: float, to_s: float) -> float:
    """Integral of a count that holds from one reading to the next.

    Args:
        counts: (time in seconds, pods), in order; the first one also holds before it.
        from_s: Beginning.
        to_s: End; the last count holds until then.
    """
    if not counts:
        return 0.0
    times = [from_s, *(at_s for at_s, _ in counts[1:]), to_s]
    clipped = [min(max(at_s, from_s), to_s) for at_s in times]
    return (
        sum((clipped[place + 1] - clipped[place]) * pods for place, (_, pods) in enumerate(counts))
        / 3600.0
    )


def seen_figures(
    records: Iterable[Record],
    counts: Sequence[tuple[float, int, int]],
    *,
    span_s: tuple[float, float],
    ttft_target_ms: float,
    itl_target_ms: float,
    itl_percentile: int,
) -> Figures:
    """The figures of a real fleet, by what clients saw and what the cluster listed.

    Args:
        records: All requests.
        counts: (Unix time, pods, ready pods), in order.
        span_s: Unix times between which requests count by when they were due.
        ttft_target_ms: Objective.
        itl_target_ms: Objective.
        itl_percentile: Share of a request's own gaps that must be in time, in percent.
    """
    from_s, to_s = span_s
    judged = [record for record in records if from_s <= record.scheduled_s < to_s]
    ttft, itl = ttft_attainment(judged, ttft_target_ms), itl_attainment(judged, itl_target_ms)
    ready = [count for at_s, _, count in counts if from_s <= at_s < to_s]
    return Figures(
        ttft=Share(ttft.good, ttft.total),
        itl=Share(itl.good, itl.total),
        goodput=Share(
            sum(is_good(r, ttft_target_ms, itl_target_ms, itl_percentile) for r in judged),
            len(judged),
        ),
        replica_hours=replica_hours([(at_s, pods) for at_s, pods, _ in counts], from_s, to_s),
        replicas_least=min(ready, default=0),
        replicas_most=max(ready, default=0),
    )


def is_good(
    record: Record, ttft_target_ms: float, itl_target_ms: float, itl_percentile: int
) -> bool:
    """Whether a request was whole and met both objectives, as engines judge their own."""
    if record.outcome is not Outcome.OK or not ttft_good(record, ttft_target_ms):
        return False
    in_time = sum(gap <= itl_target_ms for gap in record.gaps_ms)
    return in_time >= ceil(itl_percentile * len(record.gaps_ms) / 100)
