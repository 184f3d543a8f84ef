"""Waits that double, for as long as something fails."""

from __future__ import annotations

import pytest

from paceline_operator.reconcile.backoff import backoff_s
from tests.operator.reconcile.test_tick import (
    KEY,
    NOW_S,
    FailingApi,
    NoMetrics,
    ObedientEngines,
    made_context,
)


def test_each_wait_is_twice_the_one_before_up_to_the_longest() -> None:
    assert [backoff_s(n, 0.5, 10.0) for n in range(1, 8)] == [0.5, 1, 2, 4, 8, 10, 10]


@pytest.mark.behaviour(
    "what fails for weeks is tried on: the wait before the next try stays what it was",
    report="the 1025th failure in a row was too large a number, and ended the operator",
)
@pytest.mark.parametrize("failures", [1024, 1025, 10**6])
def test_no_number_of_failures_is_too_many(failures: int) -> None:
    assert backoff_s(failures, 0.5, 60.0) == 60.0
    session = made_context(FailingApi(), ObedientEngines(), NoMetrics()).session(KEY)
    session.waits["u/0"] = (failures, 0.0)
    session.wait("u/0", NOW_S)
    assert session.waits["u/0"] == (failures + 1, NOW_S + 60.0)
