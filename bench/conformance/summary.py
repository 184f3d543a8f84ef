"""The autopilot beside the others: the best of each place, and each of them by itself. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.conformance.bars import ORACLE, OURS, STATIC_PEAK, cheapest_equal, hour_ratios
from bench.conformance.cell import Cell, Score, Scores
from bench.conformance.seeds import by_contestant, middle


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One load at one cold start; medians over the seeds.

    Attributes:
        load: Name of the load.
        cold_start_s: The cold start.
        seeds: How many.
        ours: The autopilot's score.
        rival: The cheapest that attains what the autopilot does, None where nobody does; that of
            the seed whose ratio is the median.
        rival_hours: Its replica-hours in that seed.
        ratio: The autopilot's replica-hours over those of such rivals.
        oracle: The oracle's score, None where it was not run.
        static_peak: That of the static fleet, None where there is none.
    """

    load: str
    cold_start_s: int
    seeds: int
    ours: Score
    rival: str | None
    rival_hours: float | None
    ratio: float | None
    oracle: Score | None
    static_peak: Score | None


def lines(scores: Scores) -> Iterator[Line]:
    """One for each load and cold start the autopilot was run on.

    Args:
        scores: Of every cell.
    """
    ours = [cell for cell in scores if cell.policy == OURS and cell.setting is None]
    ratios = hour_ratios(scores)
    for load, cold_start_s in sorted({(cell.load, cell.cold_start_s) for cell in ours}):
        same = [cell for cell in ours if (cell.load, cell.cold_start_s) == (load, cold_start_s)]
        yield _line(scores, sorted(same), ratios)


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """The autopilot beside one of the others, over all places.

    Attributes:
        rival: Its name.
        ratios: The autopilot's replica-hours over those of the rival's cheapest setting that
            attains as much, of the places where one does; from low to high.
    """

    rival: str
    ratios: Sequence[float]


def beside_each(scores: Scores) -> list[Beside]:
    """Those that attain as much in the most places first.

    Args:
        scores: Of every cell.
    """
    found: dict[str, list[float]] = {}
    for cell, score in scores.items():
        if cell.policy == OURS and cell.setting is None:
            for name, rival in cheapest_equal(scores, cell).items():
                ratio = score.replica_hours / max(1e-9, rival.replica_hours)
                found.setdefault(name, []).append(ratio)
    each = (Beside(rival=name, ratios=sorted(ratios)) for name, ratios in found.items())
    return sorted(each, key=lambda one: (-len(one.ratios), one.rival))


def _line(scores: Scores, ours: list[Cell], ratios: Mapping[Cell, float]) -> Line:
    load, cold_start_s = ours[0].load, ours[0].cold_start_s
    found = by_contestant(scores, load, cold_start_s)
    rivalled = sorted((cell for cell in ours if cell in ratios), key=ratios.__getitem__)
    median = rivalled[(len(rivalled) - 1) // 2] if rivalled else None
    rival_hours, rival = _cheapest(scores, median) if median else (None, None)

    def of(policy: str) -> Score | None:
        by_seed = found.get((policy, None))
        return middle(by_seed.values()) if by_seed else None

    return Line(
        load=load,
        cold_start_s=cold_start_s,
        seeds=len(ours),
        ours=middle(scores[cell] for cell in ours),
        rival=rival,
        rival_hours=rival_hours,
        ratio=ratios[median] if median else None,
        oracle=of(ORACLE),
        static_peak=of(STATIC_PEAK),
    )


def _cheapest(scores: Scores, ours: Cell) -> tuple[float, str]:
    """Hours and name of the cheapest rival that attains as much; there is one."""
    return min((score.replica_hours, name) for name, score in cheapest_equal(scores, ours).items())
