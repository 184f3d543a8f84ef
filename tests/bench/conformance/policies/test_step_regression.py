"""The regression of step time and the samples it keeps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.conformance.policies.step_regression import StepRegression, StepSample
from tests.bench.conformance.policies.observed import step_s

POINTS = [(0.0, 1e3), (512.0, 1e3), (0.0, 9e4), (512.0, 9e4), (256.0, 4e4)]


def learned(points: list[tuple[float, float]]) -> StepRegression:
    regression = StepRegression()
    for prefill, kv in points:
        regression.add(StepSample(prefill, kv, step_s(prefill, kv)))
    return regression


def test_five_exact_samples_give_the_law() -> None:
    line = learned(POINTS).line
    assert line is not None
    assert line.seconds(1000.0, 50_000.0) == pytest.approx(step_s(1000.0, 50_000.0))


def test_four_are_too_few() -> None:
    assert learned(POINTS[:4]).line is None


def test_what_never_changes_has_no_slope() -> None:
    line = learned([(p, 1e3) for p in (0.0, 100.0, 200.0, 300.0, 400.0)]).line
    assert line is not None
    assert line.per_kv_token_s == 0.0
    assert line.seconds(500.0, 1e3) == pytest.approx(step_s(500.0, 1e3))


def test_a_negative_slope_voids_it() -> None:
    regression = StepRegression()
    for prefill in (0.0, 100.0, 200.0, 300.0, 400.0):
        regression.add(StepSample(prefill, 1e3, 0.1 - 1e-4 * prefill))
    assert regression.line is None


def test_one_operating_point_does_not_crowd_out_the_others() -> None:
    """First in, first out would have only the last point left, and no slope."""
    line = learned([*POINTS, *[(100.0, 2e4)] * 300]).line
    assert line is not None
    assert line.seconds(500.0, 80_000.0) == pytest.approx(step_s(500.0, 80_000.0), rel=1e-6)


def test_two_that_move_together_are_told_apart_by_nobody() -> None:
    line = learned([(p, 100 * p) for p in (10.0, 20.0, 30.0, 40.0, 50.0)]).line
    assert line is not None
    assert line.seconds(35.0, 3500.0) == pytest.approx(step_s(35.0, 3500.0))


@given(st.lists(st.tuples(st.integers(0, 4096), st.integers(0, 400_000)), max_size=90))
def test_it_never_predicts_nonsense(points: list[tuple[int, int]]) -> None:
    line = learned([(float(p), float(k)) for p, k in points]).line
    if line is not None:
        assert line.per_prefill_token_s >= 0
        assert line.per_kv_token_s >= 0
        assert 0 < line.seconds(100.0, 1000.0) < 10
