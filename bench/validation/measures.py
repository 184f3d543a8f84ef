"""Latencies of one engine under a load, and how far two of them lie apart. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from statistics import median

from e2e.load.record import Outcome, Record
from e2e.load.report import percentile


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """What attainment is counted against, in milliseconds."""

    ttft_ms: float
    itl_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """Of one load.

    Attributes:
        requests: Answered in full.
        gaps: Between their tokens.
        ttft_percent: Share of first tokens within the target.
        itl_percent: Share of gaps within the target.
        ttft_p50_ms: Median of the time to the first token.
        ttft_p95_ms: Its 95th percentile.
        itl_p50_ms: Median of the gaps.
        itl_p95_ms: Their 95th percentile.
    """

    requests: int
    gaps: int
    ttft_percent: float
    itl_percent: float
    ttft_p50_ms: float
    ttft_p95_ms: float
    itl_p50_ms: float
    itl_p95_ms: float


SHARES = ("ttft_percent", "itl_percent")
MEDIANS = ("ttft_p50_ms", "itl_p50_ms")
TAILS = ("ttft_p95_ms", "itl_p95_ms")
JUDGED = (*SHARES, *MEDIANS, *TAILS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How far a simulated figure may lie from the served one.

    Attributes:
        p50: Share of the served figure, of medians.
        p95: The same of 95th percentiles.
        points: Percentage points, of attainment.
        attainment: The same as a share of the served attainment, where that is more.
    """

    p50: float
    p95: float
    points: float = 0.0
    attainment: float = 0.0

    def of(self, name: str, served: float) -> float:
        """Of one figure, in points or as a share of the served one."""
        if name in SHARES:
            return max(self.points, self.attainment * served)
        return self.p50 if name in MEDIANS else self.p95


@dataclass(frozen=True, slots=True, kw_only=True)
class Distance:
    """One figure, served and simulated.

    Attributes:
        name: Which.
        served: By the engine.
        simulated: By the simulator.
        limit: Allowed, in points or as a share of the served one.
        spread: Of the served one over repeats: largest less smallest, in the same terms.
    """

    name: str
    served: float
    simulated: float
    limit: float
    spread: float = 0.0

    @property
    def value(self) -> float:
        """Simulated less served, in points or as a share of the served one."""
        apart = self.simulated - self.served
        return apart if self.name in SHARES else apart / self.served

    @property
    def allowed(self) -> float:
        """Its limit, or the spread of repeats where that is larger."""
        return max(self.limit, self.spread)

    @property
    def holds(self) -> bool:
        """Whether it lies within what is allowed."""
        return abs(self.value) <= self.allowed

    @property
    def says_nothing(self) -> bool:
        """Whether repeats lie so far apart that no simulated figure could be too small."""
        return self.allowed >= (self.served if self.name in SHARES else 1.0)

    @property
    def line(self) -> str:
        """For people."""
        unit, factor = (" points", 1.0) if self.name in SHARES else (" %", 100.0)
        return (
            f"{self.name:13s} served {self.served:8.2f} simulated {self.simulated:8.2f} "
            f"apart {self.value * factor:+6.1f}{unit} of "
            f"{self.allowed * factor:.1f}{_words(self)}"
        )


def _words(distance: Distance) -> str:
    if distance.says_nothing:
        return "  VOID: repeats differ too much"
    return "" if distance.holds else "  SHORT"


def measures(ttft_ms: Sequence[float], gaps_ms: Sequence[float], targets: Targets) -> Measures:
    """The figures of given samples.

    Raises:
        ValueError: There are none.
    """
    if not ttft_ms or not gaps_ms:
        raise ValueError("nothing was measured: there is no first token, or no further one")
    return Measures(
        requests=len(ttft_ms),
        gaps=len(gaps_ms),
        ttft_percent=100.0 * sum(each <= targets.ttft_ms for each in ttft_ms) / len(ttft_ms),
        itl_percent=100.0 * sum(each <= targets.itl_ms for each in gaps_ms) / len(gaps_ms),
        ttft_p50_ms=percentile(ttft_ms, 50) or 0.0,
        ttft_p95_ms=percentile(ttft_ms, 95) or 0.0,
        itl_p50_ms=percentile(gaps_ms, 50) or 0.0,
        itl_p95_ms=percentile(gaps_ms, 95) or 0.0,
    )


def served(records: Iterable[Record], targets: Targets) -> Measures:
    """What clients saw."""
    kept = [record for record in records if record.outcome is Outcome.OK]
    ttft_ms = [record.ttft_ms for record in kept if record.ttft_ms is not None]
    return measures(ttft_ms, [gap for record in kept for gap in record.gaps_ms], targets)


def middle(repeats: Sequence[Measures]) -> Measures:
    """Median of each figure over repeats."""
    kept = {
        field.name: median(getattr(each, field.name) for each in repeats)
        for field in fields(Measures)
    }
    return Measures(**kept)


def distances(
    repeats: Sequence[Measures], simulated: Measures, limits: Limits
) -> tuple[Distance, ...]:
    """Every figure with its limit; of one repeat the spread is nothing."""
    centre = middle(repeats)
    found = []
    for name in JUDGED:
        values = [getattr(each, name) for each in repeats]
        at = getattr(centre, name)
        spread = max(values) - min(values)
        found.append(
            Distance(
                name=name,
                served=at,
                simulated=getattr(simulated, name),
                limit=limits.of(name, at),
                spread=spread if name in SHARES else spread / at,
            )
        )
    return tuple(found)
