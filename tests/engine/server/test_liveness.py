from __future__ import annotations

import pytest

from paceline_engine.server.liveness import silence_limit_s, step_allowance_s


@pytest.mark.parametrize(
    ("longest_step_s", "busy", "limit_s"),
    [(0.0, False, 10), (0.0, True, 10), (0.5, True, 10), (8.0, True, 24), (8.0, False, 10)],
)
def test_limit(longest_step_s: float, busy: bool, limit_s: float) -> None:
    assert silence_limit_s(longest_step_s, busy=busy) == limit_s


@pytest.mark.parametrize(
    ("longest_s", "largest", "first_s", "allowed_s"),
    [
        (0.0, 0, 10.0, 10.0),
        (0.5, 16, 0.0, 16.0),  # a full step of 512 is 32 times as large
        (0.5, 16, 20.0, 20.0),
        (0.5, 512, 0.0, 0.5),
        (0.5, 600, 0.0, 0.5),  # the budget was larger once
        (2.0, 1, 0.0, 60.0),
        (80.0, 256, 0.0, 80.0),
    ],
)
def test_a_full_step_is_foreseen_from_smaller_ones(
    longest_s: float, largest: int, first_s: float, allowed_s: float
) -> None:
    assert step_allowance_s(longest_s, largest, budget=512, first_step_s=first_s) == allowed_s
