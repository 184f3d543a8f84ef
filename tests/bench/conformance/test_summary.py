from __future__ import annotations

from dataclasses import replace

import pytest

from bench.conformance import bars, summary
from bench.conformance.cell import Cell
from tests.bench.conformance.test_bars import CELL, GOOD, ORACLE, PEAK, RIVAL, field


def test_a_line_sets_ours_beside_the_cheapest_that_is_as_good() -> None:
    dearer = {replace(CELL, policy="hpa-cpu", setting=0): replace(RIVAL, replica_hours=6.0)}
    worse = {replace(CELL, policy="wva-v1", setting=0): replace(RIVAL, attainment=0.96)}
    (line,) = summary.lines(field() | dearer | worse)
    assert (line.load, line.cold_start_s, line.seeds) == ("step", 120, 1)
    assert (line.rival, line.rival_hours) == ("keda-waiting", RIVAL.replica_hours)
    assert line.ratio == pytest.approx(GOOD.replica_hours / RIVAL.replica_hours)
    assert (line.ours, line.oracle, line.static_peak) == (GOOD, ORACLE, PEAK)


def test_where_nobody_is_as_good_there_is_no_ratio() -> None:
    (line,) = summary.lines({CELL: GOOD})
    assert (line.rival, line.rival_hours, line.ratio) == (None, None, None)
    assert (line.oracle, line.static_peak) == (None, None)


def test_the_ratio_of_several_seeds_is_the_middle_one_and_the_rival_is_of_that_seed() -> None:
    scores = {}
    for seed, hours in ((1, 8.0), (2, 4.0), (3, 5.0)):
        scores[Cell(load="step", policy=bars.OURS, seed=seed)] = GOOD
        rival = Cell(load="step", policy=f"rival-{seed}", setting=0, seed=seed)
        scores[rival] = replace(RIVAL, replica_hours=hours)
    (line,) = summary.lines(scores)
    assert (line.seeds, line.rival, line.ratio) == (3, "rival-3", pytest.approx(0.8))


def test_loads_and_cold_starts_have_lines_of_their_own() -> None:
    cells = [(load, cold) for load in ("a", "b") for cold in (30, 300)]
    scores = {Cell(load=load, policy=bars.OURS, cold_start_s=cold): GOOD for load, cold in cells}
    assert [(line.load, line.cold_start_s) for line in summary.lines(scores)] == cells


def test_each_of_the_others_counts_only_where_it_attains_as_much() -> None:
    scores = {}
    for seed, attainment, hours in ((1, 0.96, 1.0), (2, 0.97, 8.0), (3, 0.98, 2.0)):
        scores[Cell(load="step", policy=bars.OURS, seed=seed)] = GOOD
        rival = replace(RIVAL, attainment=attainment, replica_hours=hours)
        scores[Cell(load="step", policy="rival", setting=0, seed=seed)] = rival
    (beside,) = summary.beside_each(scores)
    assert (beside.rival, beside.ratios) == ("rival", [0.5, 2.0])
