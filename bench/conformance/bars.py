"""What the autopilot must reach against the others, and where it does not. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from bench.conformance.cell import Cell, Score, Scores

OURS: Final = "ours"
ORACLE: Final = "oracle"
STATIC_PEAK: Final = "static-peak"
WITHOUT_BUDGET: Final = "ours-without-tuning"
UNBOUND_ORACLE: Final = "oracle-unbound"
NOT_RIVALS: Final = frozenset({OURS, ORACLE, UNBOUND_ORACLE})

ATTAINMENT: Final = 0.95
ORACLE_ATTAINMENT: Final = 0.97
SAVING_SHARE: Final = 0.80
MEDIAN_HOURS: Final = 0.85
MOST_HOURS: Final = 1.0
WORST_5MIN: Final = 0.80
COLD_STARTS: Final = 2.5
RECOVERY_EXTRA_S: Final = 30.0
REPLICA_REVERSALS: Final = 1
BUDGET_REVERSALS: Final = 3
EARNS_ATTAINMENT: Final = 0.05
EARNS_HOURS: Final = 0.10
_EXACT: Final = 1e-9


class Bar(StrEnum):
    """What is asked, by name in the last line."""

    ATTAINMENT = "attainment"
    SAVING = "saving"
    HOURS_MEDIAN = "hours-median"
    HOURS_MOST = "hours-most"
    WORST_5MIN = "worst-5min"
    RECOVERY = "recovery"
    REPLICA_REVERSALS = "replica-reversals"
    BUDGET_REVERSALS = "budget-reversals"
    NOTHING_CUT = "nothing-cut"
    BUDGET_EARNS = "budget-earns"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One bar in one place.

    Attributes:
        bar: Which.
        where: Cell, or what it is over.
        value: What was reached.
        limit: What is asked.
        held: Whether it was reached.
    """

    bar: Bar
    where: str
    value: float
    limit: float
    held: bool


def judge(scores: Scores, changing: Iterable[str]) -> list[Finding]:
    """All bars that the scores allow to be looked at.

    Args:
        scores: Of every cell that was run.
        changing: Loads whose regime changes, for the worth of the budget loop.
    """
    found: list[Finding] = []
    for cell, score in sorted(scores.items()):
        if cell.policy == OURS and cell.setting is None:
            found += _alone(cell, score)
            found += _beside_oracle(cell, score, scores)
    found += _hours(scores)
    found += _earned(scores, frozenset(changing))
    return found


def missed(findings: Iterable[Finding]) -> list[Bar]:
    """Bars that did not hold everywhere, each once."""
    return sorted({finding.bar for finding in findings if not finding.held})


def _alone(cell: Cell, score: Score) -> list[Finding]:
    found = [
        _at_least(Bar.WORST_5MIN, cell.name, score.worst_5min, WORST_5MIN),
        _at_most(Bar.REPLICA_REVERSALS, cell.name, score.replica_reversals, REPLICA_REVERSALS),
        _at_most(Bar.BUDGET_REVERSALS, cell.name, score.budget_reversals, BUDGET_REVERSALS),
        _at_most(Bar.NOTHING_CUT, cell.name, score.cut, 0),
    ]
    if score.recovery_s is not None:
        limit_s = COLD_STARTS * cell.cold_start_s + RECOVERY_EXTRA_S
        found.append(_at_most(Bar.RECOVERY, cell.name, score.recovery_s, limit_s))
    return found


def _beside_oracle(cell: Cell, score: Score, scores: Scores) -> list[Finding]:
    oracle = _same(scores, cell, ORACLE)
    if oracle is None:
        return []
    found = []
    if oracle.attainment >= ORACLE_ATTAINMENT:
        found.append(_at_least(Bar.ATTAINMENT, cell.name, score.attainment, ATTAINMENT))
    peak = _same(scores, cell, STATIC_PEAK)
    if peak is not None and peak.replica_hours > oracle.replica_hours:
        saved = peak.replica_hours - score.replica_hours
        share = saved / (peak.replica_hours - oracle.replica_hours)
        found.append(_at_least(Bar.SAVING, cell.name, share, SAVING_SHARE))
    return found


def _same(scores: Scores, cell: Cell, policy: str) -> Score | None:
    """The score of another contestant under the same conditions."""
    other = Cell(load=cell.load, policy=policy, cold_start_s=cell.cold_start_s, seed=cell.seed)
    return scores.get(other)


def cheapest_equal(scores: Scores, ours: Cell) -> Mapping[str, Score]:
    """Each rival's cheapest setting that attains what ours does, where one does.

    Args:
        scores: Of every cell.
        ours: The cell to be compared with.
    """
    wanted = scores[ours].attainment
    found: dict[str, Score] = {}
    for cell, score in scores.items():
        same = (cell.load, cell.cold_start_s, cell.seed) == (
            ours.load, ours.cold_start_s, ours.seed,
        )  # fmt: skip
        if not same or _is_ours(cell) or score.attainment < wanted:
            continue
        best = found.get(cell.policy)
        if best is None or score.replica_hours < best.replica_hours:
            found[cell.policy] = score
    return found


def _is_ours(cell: Cell) -> bool:
    return cell.policy in NOT_RIVALS or cell.policy.startswith(f"{OURS}-")


def hour_ratios(scores: Scores) -> dict[Cell, float]:
    """Replica-hours of ours over the best rival's at equal attainment, by cell of ours."""
    ratios: dict[Cell, float] = {}
    for cell, score in scores.items():
        if cell.policy != OURS or cell.setting is not None:
            continue
        rivals = cheapest_equal(scores, cell)
        if rivals:
            least = min(rival.replica_hours for rival in rivals.values())
            ratios[cell] = score.replica_hours / max(1e-9, least)
    return ratios


def _hours(scores: Scores) -> list[Finding]:
    ratios = hour_ratios(scores)
    if not ratios:
        return []
    median = statistics.median(ratios.values())
    worst = max(ratios, key=ratios.__getitem__)
    return [
        _at_most(Bar.HOURS_MEDIAN, f"{len(ratios)} cells", median, MEDIAN_HOURS),
        _at_most(Bar.HOURS_MOST, worst.name, ratios[worst], MOST_HOURS),
    ]


def _earned(scores: Scores, changing: frozenset[str]) -> list[Finding]:
    """Whether taking the budget loop out costs enough, against the best hindsight budget."""
    found = []
    for cell, score in sorted(scores.items()):
        if cell.policy != OURS or cell.load not in changing:
            continue
        fixed = _best_fixed(scores, cell)
        if fixed is None:
            continue
        points = score.attainment - fixed.attainment
        hours = fixed.replica_hours / max(1e-9, score.replica_hours) - 1.0
        # Fewer hours are worth something only where attainment is not lost for them.
        worth = max(points / EARNS_ATTAINMENT, hours / EARNS_HOURS if points >= 0 else 0.0)
        found.append(_at_least(Bar.BUDGET_EARNS, cell.name, worth, 1.0))
    return found


def _best_fixed(scores: Scores, ours: Cell) -> Score | None:
    """Ours with the budget fixed at the value that hindsight would choose."""
    fixed = [
        score
        for cell, score in scores.items()
        if cell.policy == WITHOUT_BUDGET
        and (cell.load, cell.cold_start_s, cell.seed) == (ours.load, ours.cold_start_s, ours.seed)
    ]
    return max(fixed, key=_goodness, default=None)


def _goodness(score: Score) -> tuple[float, float]:
    """Attainment up to what is asked, then hours."""
    return min(score.attainment, ATTAINMENT), -score.replica_hours


def _at_least(bar: Bar, where: str, value: float, limit: float) -> Finding:
    return Finding(bar=bar, where=where, value=value, limit=limit, held=value >= limit - _EXACT)


def _at_most(bar: Bar, where: str, value: float, limit: float) -> Finding:
    return Finding(bar=bar, where=where, value=value, limit=limit, held=value <= limit + _EXACT)


def last_line(findings: Sequence[Finding], traces: str, cells: int) -> str:
    """`conformance: ok|short ...`, with each bar that was missed and how often."""
    failed = missed(findings)
    counts = {bar: sum(f.bar is bar and not f.held for f in findings) for bar in failed}
    told = " ".join(f"{bar}={counts[bar]}" for bar in failed)
    word = "short" if failed else "ok"
    return f"conformance: {word} cells={cells} traces={traces} {told}".rstrip()
