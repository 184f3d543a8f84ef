"""Stabilisation and rate limits of an HPA, by its documentation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.conformance.policies.scaling_behavior import Behavior, Limit, Pace
from bench.conformance.policies.site import ReplicaBounds

BOUNDS = ReplicaBounds(least=1, most=50)


def after(pace: Pace, current: int, *asked: tuple[float, int]) -> list[int]:
    """Replicas after each recommendation, given as (time, wanted)."""
    found = []
    for now_s, wanted in asked:
        current = pace.settled(wanted, current, now_s)
        found.append(current)
    return found


@pytest.mark.parametrize(
    ("current", "wanted", "expected"),
    [(3, 20, 7), (4, 20, 8), (10, 50, 20), (3, 5, 5), (3, 3, 3), (0, 3, 3)],
)
def test_up_at_once_by_the_larger_of_doubling_and_four_pods(
    current: int, wanted: int, expected: int
) -> None:
    assert after(Pace(Behavior(), BOUNDS), current, (0.0, wanted)) == [expected]


def test_a_limit_counts_from_the_beginning_of_its_period() -> None:
    steps = after(Pace(Behavior(), BOUNDS), 3, (0.0, 40), (5.0, 40), (15.0, 40), (30.0, 40))
    assert steps == [7, 7, 14, 28]


def test_down_to_the_highest_recommendation_of_five_minutes() -> None:
    asked = [(15.0 * n, 5 if n == 0 else 2) for n in range(22)]
    steps = after(Pace(Behavior(), BOUNDS), 5, *asked)
    assert steps[:20] == [5] * 20
    assert steps[20:] == [2, 2]


def test_a_dip_shorter_than_the_window_changes_nothing() -> None:
    asked = [(15.0 * n, 5 if n % 19 == 0 else 1) for n in range(60)]
    assert set(after(Pace(Behavior(), BOUNDS), 5, *asked)) == {5}


def test_what_there_is_at_first_counts_as_a_recommendation() -> None:
    assert after(Pace(Behavior(), BOUNDS), 6, (0.0, 2), (299.0, 2), (300.0, 2)) == [6, 6, 2]


def test_an_up_window_waits_for_the_lowest_recommendation_to_age() -> None:
    pace = Pace(Behavior(up_window_s=30.0), BOUNDS)
    assert after(pace, 2, (0.0, 6), (15.0, 6), (30.0, 6)) == [2, 2, 6]


def test_one_pod_in_two_minutes() -> None:
    behavior = Behavior(down_window_s=0.0, down_limits=(Limit(pods=1, period_s=120.0),))
    steps = after(Pace(behavior, BOUNDS), 5, (0.0, 1), (60.0, 1), (120.0, 1), (180.0, 1))
    assert steps == [4, 4, 3, 3]


def test_half_of_what_there_was() -> None:
    behavior = Behavior(down_window_s=0.0, down_limits=(Limit(percent=50),))
    assert after(Pace(behavior, BOUNDS), 9, (0.0, 1)) == [4]


def test_bounds_come_last() -> None:
    pace = Pace(Behavior(down_window_s=0.0), ReplicaBounds(least=2, most=5))
    assert after(pace, 3, (0.0, 9), (15.0, 0)) == [5, 2]


@given(st.lists(st.integers(0, 60), min_size=1, max_size=40), st.integers(1, 50))
def test_it_stays_in_bounds_and_never_goes_past_what_is_wanted(
    wanted: list[int], current: int
) -> None:
    pace = Pace(Behavior(), BOUNDS)
    for place, each in enumerate(wanted):
        moved = pace.settled(each, current, 15.0 * place)
        assert 1 <= moved <= min(50, max(2 * current, current + 4))
        assert min(current, each) <= moved or moved == BOUNDS.least
        assert moved <= max(current, each)
        current = moved
