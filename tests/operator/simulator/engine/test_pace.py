"""Times of steps in a row: the closed forms against the plain sum."""

from __future__ import annotations

from itertools import accumulate
from math import isclose

from hypothesis import given
from hypothesis import strategies as st

from paceline_operator.simulator.engine.pace import Pace

paces = st.builds(
    Pace,
    st.floats(0.001, 0.5),
    st.one_of(st.just(0.0), st.floats(1e-9, 1e-3)),
)


def times(pace: Pace, steps: int) -> list[float]:
    return [pace.first_s + number * pace.growth_s for number in range(steps)]


@given(paces, st.integers(1, 300))
def test_elapsed_is_the_sum(pace: Pace, steps: int) -> None:
    assert isclose(pace.elapsed_s(steps), sum(times(pace, steps)), rel_tol=1e-12)


@given(paces, st.integers(1, 300), st.floats(-0.1, 1.1))
def test_as_many_have_ended_as_fit(pace: Pace, most: int, share: float) -> None:
    seconds = share * pace.elapsed_s(most)
    ended = pace.within(seconds, most)
    assert ended == sum(end_s <= seconds for end_s in map(pace.elapsed_s, range(1, most + 1)))


@given(paces, st.integers(1, 300))
def test_a_step_has_ended_when_it_ends(pace: Pace, steps: int) -> None:
    assert pace.within(pace.elapsed_s(steps), 400) == steps


@given(paces, st.integers(1, 300), st.floats(0.0, 1.0))
def test_long_ones_are_counted(pace: Pace, steps: int, share: float) -> None:
    every = times(pace, steps)
    limit_s = 0.9 * every[0] + share * (1.1 * every[-1] - 0.9 * every[0])
    assert pace.longer_than(limit_s, steps) == sum(each > limit_s for each in every)
    assert pace.longer_than(every[-1], steps) == 0
    assert pace.longer_than(every[0], steps) == sum(each > every[0] for each in every)


@given(paces, st.integers(1, 50), st.integers(1, 50))
def test_a_pace_goes_on(pace: Pace, before: int, after: int) -> None:
    parts = pace.elapsed_s(before) + pace.after(before).elapsed_s(after)
    assert isclose(parts, pace.elapsed_s(before + after), rel_tol=1e-9)
    ends = list(accumulate(times(pace, before + after)))
    assert isclose(ends[-1], parts, rel_tol=1e-9)
