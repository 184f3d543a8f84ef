from __future__ import annotations

from dataclasses import replace

import pytest

from bench.conformance import bars
from bench.conformance.cell import Cell
from bench.conformance.contestants import ALL, STATIC_MEAN, first_replicas
from bench.conformance.run_cell import _settled, run_cell
from bench.conformance.tuning import Tuning
from paceline_operator.simulator.scoring.outcome import Outcome
from tests.bench.conformance.tiny_case import tiny

TUNING = Tuning(budget=1024, peak_replicas=2)


@pytest.mark.parametrize("policy", ALL)
def test_every_contestant_can_run(policy: str) -> None:
    score = run_cell(Cell(load="tiny", policy=policy, cold_start_s=30), tiny(), TUNING)
    assert 200 < score.requests < 280
    assert score.attainment > 0.95
    assert score.cut == 0
    assert 0.03 < score.replica_hours < 0.5


def test_the_same_cell_gives_the_same_score() -> None:
    cell = Cell(load="tiny", policy=bars.OURS, cold_start_s=30)
    first, second = (run_cell(cell, tiny(), TUNING) for _ in range(2))
    assert replace(first, wall_s=0) == replace(second, wall_s=0)
    assert run_cell(replace(cell, seed=2), tiny(), TUNING).requests != first.requests


@pytest.mark.parametrize(
    ("policy", "replicas"), [(bars.STATIC_PEAK, 3), (STATIC_MEAN, 2), ("hpa-cpu", 1)]
)
def test_a_fleet_that_nobody_scales_pays_no_cold_start(policy: str, replicas: int) -> None:
    tuning = replace(TUNING, peak_replicas=3, mean_replicas=2, first_replicas=1)
    assert first_replicas(policy, tuning) == replicas
    if policy != "hpa-cpu":
        cell = Cell(load="tiny", policy=policy, cold_start_s=600)
        score = run_cell(cell, tiny(), tuning)
        # Nothing that was ordered during the load would have come.
        assert score.replica_hours == pytest.approx(replicas * 120 / 3600, rel=0.1)
        assert score.replica_moves == 0


def test_an_objective_that_nobody_can_hold_is_missed() -> None:
    cell = Cell(load="tiny", policy=bars.STATIC_PEAK, cold_start_s=30)
    score = run_cell(cell, tiny(ttft_ms=5), TUNING)
    assert score.attainment < 0.05
    assert score.itl_attainment > 0.95


def test_one_cold_start_after_a_step_is_in_no_stretch_of_five_minutes() -> None:
    case = replace(tiny(), steps_up_at_s=(60.0,))
    arrivals = [0.0, 59.0, 60.0, 89.0, 90.0, 119.0]
    outcomes = [Outcome(arrival_s=at_s, tier="interactive") for at_s in arrivals]
    before, after = _settled(outcomes, case, 30.0)
    assert [each.arrival_s for each in before] == [0.0, 59.0]
    assert [each.arrival_s for each in after] == [90.0, 119.0]
    assert _settled(outcomes, tiny(), 30.0) == (outcomes,)
    twice = _settled(outcomes, replace(tiny(), steps_up_at_s=(10.0, 70.0)), 30.0)
    assert [[each.arrival_s for each in part] for part in twice] == [[0.0], [59.0, 60.0], [119.0]]
