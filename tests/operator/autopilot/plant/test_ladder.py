from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline_operator.autopilot.plant.ladder import Ladder

LADDER = Ladder(floor=80, ceiling=1000, step=16)


@pytest.mark.parametrize(
    ("value", "rung"), [(10, 80), (80, 80), (95.9, 80), (96, 96), (999, 992), (1000, 1000)]
)
def test_down(value: float, rung: int) -> None:
    assert LADDER.down(value) == rung


@pytest.mark.parametrize(("budget", "rung"), [(80, 96), (512, 560), (976, 1000), (1000, 1000)])
def test_next_up(budget: int, rung: int) -> None:
    assert LADDER.next_up(budget) == rung


@given(st.integers(1, 60), st.integers(0, 200), st.sampled_from([16, 128]), st.integers(0, 9000))
def test_the_largest_allowed_is_found(low: int, more: int, step: int, limit: int) -> None:
    ladder = Ladder(floor=low * step, ceiling=low * step + more * 10, step=step)
    found = ladder.largest(lambda budget: budget <= limit)
    rungs = [b for b in range(ladder.floor, ladder.ceiling + 1) if ladder.holds(b)]
    allowed = [b for b in rungs if b <= limit]
    assert found == (max(allowed) if allowed else None)
