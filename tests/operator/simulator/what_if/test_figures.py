from __future__ import annotations

from typing import Any

import pytest

from paceline_operator.autopilot.vocabulary.decision import Knob
from paceline_operator.simulator.result import Move, Result, Sample
from paceline_operator.simulator.scoring.outcome import FAILED, REFUSED, Outcome
from paceline_operator.simulator.what_if.figures import Figures, figures
from tests.operator.simulator.what_if.build import ITL, TTFT


def done(arrival_s: float, ttft_s: float = 0.2, late: int = 0, **more: Any) -> Outcome:
    return Outcome(
        arrival_s, more.pop("tier", "interactive"), ttft_s, ttft_s + 1, 100, (late,), **more
    )


def sample(time_s: float, existing: int) -> Sample:
    return Sample(time_s, existing, existing, existing, 512, 32, 0, 0)


def move(time_s: float, before: int, after: int, knob: Knob = Knob.REPLICAS) -> Move:
    return Move(time_s, knob, before, after, "test")


def of(outcomes: list[Outcome], **more: Any) -> Figures:
    given: dict[str, Any] = {
        "refusals": {}, "cut": 0, "replica_seconds": 0.0, "length_s": 0.0, "samples": [],
        "moves": [], **more,
    }  # fmt: skip
    result = Result(outcomes=outcomes, **given)
    return figures(result, (TTFT, ITL), lead_s=100.0, span_s=3600.0, sample_s=5.0)


def test_requests_are_sorted_by_what_became_of_them() -> None:
    found = of(
        [
            done(10.0, 9.0),  # of the lead-in
            *[done(100.0 + place) for place in range(6)],
            done(110.0, 1.5),
            done(111.0, late=50),
            Outcome(112.0, "interactive", outcome=REFUSED),
            Outcome(113.0, "interactive", 0.2, None, 3, (0,), FAILED),
        ]
    )
    assert (found.requests, found.refused, found.unserved, found.late) == (10, 1, 1, 2)
    assert found.goodput == pytest.approx(0.6)
    assert found.attained[0] == pytest.approx(8 / 10)
    assert found.attained[1] == pytest.approx(1 - 50 / 803)


def test_replica_hours_are_those_of_the_load_alone() -> None:
    samples = [sample(5.0 * place, 9 if 5 * place < 100 else 2) for place in range(1000)]
    found = of([], samples=samples)
    assert found.replica_hours == pytest.approx(2.0)
    assert (found.replicas_mean, found.replicas_peak) == (2.0, 2)


def test_replica_hours_are_of_the_span_to_the_second() -> None:
    """However samples lie in it."""
    samples = [sample(-3.0 + 5.0 * place, 2) for place in range(1000)]
    assert of([], samples=samples).replica_hours == pytest.approx(2.0)


def test_moves_of_the_lead_in_do_not_count() -> None:
    found = of(
        [],
        moves=[
            move(50.0, 1, 9), move(150.0, 9, 5), move(200.0, 5, 6), move(300.0, 6, 4),
            move(400.0, 512, 256, Knob.BUDGET), move(3800.0, 4, 1),
            move(90.0, 0, 80_000, Knob.STEP_TIME), move(500.0, 80_000, 76_000, Knob.STEP_TIME),
            move(900.0, 76_000, 79_000, Knob.STEP_TIME),
        ],
    )  # fmt: skip
    assert (found.replica_moves, found.replica_reversals) == (3, 2)
    assert (found.budget_moves, found.budget_reversals) == (1, 0)
    assert (found.step_time_moves, found.step_time_reversals) == (2, 1)


def test_a_tier_without_objectives_is_not_judged() -> None:
    found = of([done(200.0, 5.0), *[done(201.0, 9.0, tier="batch") for _ in range(9)]])
    assert found.goodput == 0.0


def test_the_worst_minutes_are_told_with_their_time() -> None:
    bad = [done(1000.0 + place, 3.0) for place in range(100)]
    found = of([*[done(100.0 + 3 * place) for place in range(1000)], *bad])
    assert found.worst_5min == pytest.approx(0.5, abs=0.02)
    assert found.worst_5min_at_s == pytest.approx(700.0, abs=10.0)


def test_few_requests_have_no_worst_minutes() -> None:
    found = of([done(100.0 + 20 * place, 9.0) for place in range(100)])
    assert (found.goodput, found.worst_5min, found.worst_5min_at_s) == (0.0, None, None)


def test_what_nobody_asked_for_has_no_share() -> None:
    found = of([done(200.0, tier="batch")])
    assert (found.attained, found.offered, found.goodput) == ((None, None), (0, 0), None)


def test_refused_requests_are_samples_of_the_first_token_and_not_of_gaps() -> None:
    found = of([Outcome(200.0 + place, "interactive", outcome=REFUSED) for place in range(3)])
    assert (found.attained, found.offered, found.goodput) == ((0.0, None), (3, 3), 0.0)


def test_without_an_objective_there_is_nothing_to_be_within() -> None:
    result = Result(
        outcomes=[done(0.0)], refusals={}, cut=0, replica_seconds=0.0, length_s=0.0, samples=[],
        moves=[],
    )  # fmt: skip
    found = figures(result, (), lead_s=0.0, span_s=60.0, sample_s=5.0)
    assert (found.requests, found.attained, found.goodput) == (1, (), None)
