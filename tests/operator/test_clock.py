from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline_operator.clock import SLEW, SteadyClock


def test_it_tells_the_time_of_day() -> None:
    now = [100.0]
    clock = SteadyClock(lambda: now[0], lambda: 1_000_000.0 + now[0])
    now[0] += 7.5
    assert clock() == pytest.approx(1_000_107.5)


def test_a_clock_that_was_set_is_followed_slowly() -> None:
    steady, wall = [0.0], [1000.0]
    clock = SteadyClock(lambda: steady[0], lambda: wall[0])
    steady[0], wall[0] = 10.0, 1010.0 + 3600
    assert clock() == pytest.approx(1010.0 + 10 * SLEW)
    steady[0], wall[0] = 100_000.0, 1000.0 + 100_000.0 + 3600
    assert clock() == pytest.approx(wall[0])


@given(st.lists(st.tuples(st.floats(0, 1e4), st.floats(-1e6, 1e6)), max_size=30))
def test_it_never_goes_back_and_intervals_are_nearly_true(steps: list[tuple[float, float]]) -> None:
    steady, wall = [0.0], [1e9]
    clock = SteadyClock(lambda: steady[0], lambda: wall[0])
    last = clock()
    for passed, jump in steps:
        steady[0] += passed
        wall[0] += passed + jump
        now = clock()
        assert passed * (1 - SLEW) - 1e-3 <= now - last <= passed * (1 + SLEW) + 1e-3
        last = now


def test_it_knows_how_far_off_it_is() -> None:
    steady, wall = [0.0], [1000.0]
    clock = SteadyClock(lambda: steady[0], lambda: wall[0])
    assert clock.error_s == 0.0
    wall[0] += 3600.0
    assert clock.error_s == 3600.0
    steady[0], wall[0] = 10.0, wall[0] + 10.0
    assert clock.error_s == pytest.approx(3600.0 - 10.0 * SLEW)
