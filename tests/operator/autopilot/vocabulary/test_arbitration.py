from __future__ import annotations

from itertools import product

import pytest

from paceline_operator.autopilot.vocabulary.arbitration import TABLE, BudgetMove, Cause, stance


def test_the_table_is_complete() -> None:
    assert set(TABLE) == set(product(Cause, (False, True)))


@pytest.mark.parametrize(
    ("cause", "ttft", "budget", "squeeze", "out_now", "out_late"),
    [
        (Cause.NONE, False, BudgetMove.ANY, False, False, False),
        (Cause.NONE, True, BudgetMove.RAISE, False, False, True),
        (Cause.PREFILL, False, BudgetMove.LOWER, False, False, False),
        (Cause.PREFILL, True, BudgetMove.LOWER, False, True, False),
        (Cause.DECODE, False, BudgetMove.NONE, True, True, False),
        (Cause.DECODE, True, BudgetMove.NONE, False, True, False),
        (Cause.UNKNOWN, False, BudgetMove.NONE, False, False, False),
        (Cause.UNKNOWN, True, BudgetMove.NONE, False, True, False),
    ],
)
def test_each_row(
    cause: Cause,
    ttft: bool,
    budget: BudgetMove,
    squeeze: bool,
    out_now: bool,
    out_late: bool,
) -> None:
    found = stance(cause, ttft_violated=ttft)
    assert (found.budget, found.squeeze) == (budget, squeeze)
    assert (found.out_now, found.out_late) == (out_now, out_late)
