"""The interval between scrapes: as wanted, and longer where the process cannot keep up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline_operator.metrics import DirectSource, HttpFetch
from paceline_operator.reconcile.instruments import Instruments
from paceline_operator.reconcile.pace import LONGEST_S, MUCH, Pace, paced


@pytest.mark.parametrize(
    ("interval_s", "busy", "late_s", "expected"),
    [
        (5.0, 0.3, 0.0, 5.0),
        (5.0, 0.7, 0.5, 5.0),
        (5.0, 0.975, 0.0, 7.5),
        (5.0, 0.2, 2.0, 7.0),
        (12.0, 1.0, 9.0, 15.0),
        (15.0, 0.7, 0.2, 15.0),
        (15.0, 0.4, 0.2, 12.0),
        (5.5, 0.0, 0.0, 5.0),
    ],
)
def test_intervals(interval_s: float, busy: float, late_s: float, expected: float) -> None:
    assert paced(interval_s, 5.0, busy, late_s) == pytest.approx(expected)


def test_a_longer_interval_that_is_wanted_is_never_cut() -> None:
    assert paced(30.0, 30.0, 1.0, 40.0) == 30.0
    assert paced(30.0, 30.0, 0.0, 0.0) == 30.0


@given(st.floats(0.05, 12.0))
def test_any_load_ends_at_rest_within_the_limits(seconds_of_work: float) -> None:
    """Work of a round takes the same whatever the interval: the busy share is their ratio."""
    interval_s, seen = 5.0, []
    for _ in range(40):
        interval_s = paced(interval_s, 5.0, min(1.0, seconds_of_work / interval_s), 0.0)
        seen.append(interval_s)
    assert 5.0 <= interval_s <= LONGEST_S
    assert seen[-1] == pytest.approx(seen[-2], rel=1e-3)
    if seconds_of_work < MUCH * LONGEST_S:
        assert seconds_of_work / interval_s <= MUCH + 1e-9


def test_the_interval_in_force_is_shown() -> None:
    source, instruments = DirectSource(HttpFetch.__new__(HttpFetch)), Instruments()
    late = [3.0]
    pace = Pace(source, lambda: late[0], instruments)
    name = "paceline_operator_scrape_interval_seconds"
    assert instruments.registry.get_sample_value(name) == 5.0
    pace.look(busy=0.4)
    assert source.interval_s == 7.5
    assert instruments.registry.get_sample_value(name) == 7.5
    late[0] = 0.0
    for _ in range(5):
        pace.look(busy=0.1)
    assert instruments.registry.get_sample_value(name) == source.interval_s == 5.0
