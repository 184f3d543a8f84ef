from __future__ import annotations

from itertools import product

import pytest

from paceline_operator.autopilot.arbitration import TABLE, BudgetMove, Cause, stance


def test_the_table_is_complete() -> None:
    assert set(TABLE) == set(product(Cause, (False, True)))


@pytest.mark.parametrize(
    ("cause", "ttft", "budget", "squeeze", "out_now", "out_late", "scale_in"),
    [
        (Cause.NONE, False, BudgetMove.ANY, False, False, False, True),
        (Cause.NONE, True, BudgetMove.RAISE, False, False, True, False),
        (Cause.PREFILL, False, BudgetMove.LOWER, False, False, False, False),
        (Cause.PREFILL, True, BudgetMove.LOWER, False, True, False, False),
        (Cause.DECODE, False, BudgetMove.NONE, True, True, False, False),
        (Cause.DECODE, True, BudgetMove.NONE, False, True, False, False),
        (Cause.UNKNOWN, False, BudgetMove.NONE, False, False, False, False),
        (Cause.UNKNOWN, True, BudgetMove.NONE, False, True, False, False),
    ],
)
def test_each_row(
    cause: Cause,
    ttft: bool,
    budget: BudgetMove,
    squeeze: bool,
    out_now: bool,
    out_late: bool,
    scale_in: bool,
) -> None:
    found = stance(cause, ttft_violated=ttft)
    assert (found.budget, found.squeeze) == (budget, squeeze)
    assert (found.out_now, found.out_late, found.scale_in) == (out_now, out_late, scale_in)


def test_no_violation_ever_allows_scale_in() -> None:
    for (cause, ttft), found in TABLE.items():
        if ttft or cause is not Cause.NONE:
            assert not found.scale_in
