from __future__ import annotations

from dataclasses import replace

from bench.conformance import bars
from bench.conformance.cell import Cell
from bench.conformance.seeds import by_contestant, middle
from tests.bench.conformance.test_bars import GOOD, field


def test_each_figure_has_a_median_of_its_own() -> None:
    scores = [
        replace(GOOD, attainment=attainment, replica_hours=hours, replica_moves=moves)
        for attainment, hours, moves in ((0.90, 5.0, 8), (0.99, 6.0, 2), (0.95, 1.0, 4))
    ]
    found = middle(scores)
    assert (found.attainment, found.replica_hours, found.replica_moves) == (0.95, 5.0, 4)


def test_of_two_the_lower_one_counts_and_what_is_not_there_does_not() -> None:
    found = middle([GOOD, replace(GOOD, attainment=0.90, recovery_s=None)])
    assert found.attainment == 0.90
    assert found.recovery_s == GOOD.recovery_s
    assert middle([replace(GOOD, recovery_s=None)]).recovery_s is None


def test_settings_are_told_apart_and_seeds_are_put_together() -> None:
    scores = field() | {
        Cell(load="step", policy=bars.OURS, seed=2): GOOD,
        Cell(load="step", policy="keda-waiting", setting=3): GOOD,
        Cell(load="step", policy=bars.OURS, cold_start_s=30): GOOD,
    }
    found = by_contestant(scores, "step", 120)
    assert sorted(found[bars.OURS, None]) == [1, 2]
    assert ("keda-waiting", 2) in found
    assert ("keda-waiting", 3) in found
    assert len(found) == 5
