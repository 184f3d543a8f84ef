"""The predictor of Dynamo's throughput rule."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.conformance.policies.local_trend import LocalTrend


def forecast(*readings: float) -> float:
    """Of the interval after these, asked after each as the planner does."""
    series = LocalTrend()
    expected = series.next()
    for reading in readings:
        series.add(reading)
        expected = series.next()
    return expected


def test_before_and_after_the_first_reading() -> None:
    assert forecast() == 0.0
    assert forecast(900.0) == 900.0


def test_a_steady_load_is_expected_to_go_on() -> None:
    assert forecast(*[900.0] * 9) == pytest.approx(900.0)


def test_the_second_reading_moves_level_and_trend() -> None:
    """Spread (2001, 1000): gains 2001 / 2011 and 1000 / 2011 on a surprise of 10."""
    assert forecast(10.0, 20.0) == pytest.approx(10 + 10 * 2001 / 2011 + 10 * 1000 / 2011)


def test_a_slope_is_carried_on() -> None:
    assert forecast(*[100.0 + 10.0 * n for n in range(30)]) == pytest.approx(400.0, abs=0.5)


def test_an_idle_beginning_is_no_reading() -> None:
    assert forecast(0.0, 0.0, 0.0, 50.0) == 50.0


def test_asking_twice_changes_nothing() -> None:
    series = LocalTrend()
    series.add(10.0)
    series.add(20.0)
    assert series.next() == series.next()


@given(st.lists(st.floats(0, 1e6), max_size=40))
def test_never_negative(readings: list[float]) -> None:
    assert 0.0 <= forecast(*readings) < 1e8
