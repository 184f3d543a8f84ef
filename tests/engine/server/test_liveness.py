from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline_engine.server.liveness import MEMORY_S, RecentSteps, Silence, silence

BUDGET = 512
Step = tuple[float, int]


def recent(*steps: Step) -> RecentSteps:
    """Steps one after the other, each as long as it took."""
    found, now_s = RecentSteps(), 0.0
    for duration_s, tokens in steps:
        now_s += duration_s
        found.add(duration_s, tokens, now_s)
    return found


@pytest.mark.parametrize(
    ("steps", "first_step_s", "expected_s"),
    [
        ([], 0.0, 0.0),
        ([], 10.0, 10.0),
        ([(0.1, 3), (0.2, 1)], 0.0, 0.2),
        ([(0.1, 3), (0.2, 1)], 10.0, 10.0),  # too small to tell
        ([(0.5, 127)], 10.0, 10.0),
        ([(0.5, 128)], 10.0, 2.0),
        ([(0.5, 256), (0.4, 16)], 10.0, 1.0),
        ([(0.4, 16), (0.5, 256)], 10.0, 1.0),
        ([(0.5, 256), (4.0, 1)], 10.0, 4.0),  # a hitch says nothing of larger steps
        ([(0.5, 512)], 10.0, 0.5),
        ([(0.5, 600)], 10.0, 0.5),  # the budget was larger once
        ([(3.0, 128)], 10.0, 10.0),  # 12 in proportion
        ([(80.0, 256)], 10.0, 80.0),
    ],
)
def test_a_full_step_is_foreseen_from_smaller_ones(
    steps: list[Step], first_step_s: float, expected_s: float
) -> None:
    assert recent(*steps).expected_s(BUDGET, first_step_s) == pytest.approx(expected_s)


@pytest.mark.parametrize(
    ("steps", "first_step_s", "unready_s", "dead_s"),
    [
        ([], 0.0, 5, 10),
        ([(0.1, 3), (0.1, 1)], 0.0, 5, 10),
        ([(2.0, 512)], 0.0, 6, 10),
        ([(8.0, 512)], 0.0, 12, 24),
        ([], 10.0, 14, 30),  # nothing has told of a full step yet
        ([(0.1, 3)], 10.0, 14, 30),
        ([(24.0, 512)], 0.0, 28, 36),
        ([(100.0, 512)], 0.0, 104, 120),
        ([(300.0, 512)], 0.0, 120, 120),
    ],
)
def test_how_long_a_busy_engine_may_be_silent(
    steps: list[Step], first_step_s: float, unready_s: float, dead_s: float
) -> None:
    found = silence(recent(*steps), BUDGET, first_step_s, busy=True)
    assert found == Silence(unready_s=unready_s, dead_s=dead_s)


@given(
    steps=st.lists(st.tuples(st.floats(0.001, 500), st.integers(1, 600)), max_size=6),
    first_step_s=st.sampled_from([0.0, 10.0]),
)
def test_readiness_goes_first_and_no_step_that_came_back_is_death(
    steps: list[Step], first_step_s: float
) -> None:
    found = silence(recent(*steps), BUDGET, first_step_s, busy=True)
    assert 5 <= found.unready_s <= found.dead_s <= 120
    last_s = steps[-1][0] if steps else 0.0
    assert found.dead_s >= min(last_s, 120)


def test_an_idle_engine_beats_every_second_whatever_its_steps_were() -> None:
    found = silence(recent((80.0, 512)), BUDGET, 10.0, busy=False)
    assert found == Silence(unready_s=5, dead_s=10)


def test_a_slow_step_is_forgotten() -> None:
    steps = recent((40.0, 512))
    for second in range(int(MEMORY_S)):
        steps.add(1.0, 512, 41.0 + second)
    assert steps.longest_s == 40.0  # the span it is in has ended just now
    for second in range(int(MEMORY_S)):
        steps.add(1.0, 512, 41.0 + MEMORY_S + second)
    assert steps.longest_s == 1.0
    assert steps.expected_s(BUDGET, 10.0) == 1.0
