"""When a request counts for which objective, and when it is goodput."""

from __future__ import annotations

from typing import Any

import pytest

from paceline_operator.api.v1alpha1 import SloMetric, Tier
from paceline_operator.autopilot.vocabulary.policy import Objective
from paceline_operator.autopilot.vocabulary.window import SloCounts
from paceline_operator.simulator.metering.objective_counts import ObjectiveCounts
from tests.operator.simulator.served import begun, over, waiting

TTFT, E2E, TPOT, ITL = SloMetric.TTFT, SloMetric.E2E, SloMetric.TPOT, SloMetric.ITL


def objective(metric: SloMetric, target_ms: int = 1000, **more: Any) -> Objective:
    return Objective(name=metric.value, metric=metric, target_ms=target_ms, **more)


def board(*, percentile: int = 50) -> ObjectiveCounts:
    return ObjectiveCounts([objective(metric, percentile=percentile) for metric in SloMetric])


def counts(board: ObjectiveCounts) -> dict[str, tuple[float, float]]:
    """Good and bad by metric, of those that have samples."""
    taken = board.take()
    return {
        key.split(":")[1]: (found.good, found.bad) for key, found in taken.items() if found.total
    }


def test_a_request_in_time_is_good_once() -> None:
    made, served = board(), waiting(10.0)
    made.begin(served)
    made.start(begun(served, 10.9), 10.9)
    made.expire(10.95)
    assert made.complete(over(served, 10.99), tpot_s=0.5)
    made.expire(100.0)
    assert counts(made) == {"TTFT": (1, 0), "E2E": (1, 0), "TPOT": (1, 0)}


def test_on_the_target_is_in_time() -> None:
    made, served = board(), waiting(10.0)
    made.begin(served)
    made.start(begun(served, 11.0), 11.0)
    assert counts(made) == {"TTFT": (1, 0)}


@pytest.mark.parametrize("looks", [(), (11.5,), (11.1, 11.5, 12.5)])
def test_a_late_one_is_bad_once_however_often_somebody_looks(looks: tuple[float, ...]) -> None:
    made, served = board(), waiting(10.0)
    made.begin(served)
    for now_s in looks:
        made.expire(now_s)
    made.start(begun(served, 13.0), 13.0)
    made.expire(13.5)
    assert not made.complete(over(served, 14.0), tpot_s=0.5)
    made.expire(20.0)
    assert counts(made) == {"TTFT": (0, 1), "E2E": (0, 1), "TPOT": (1, 0)}


def test_it_is_bad_while_it_still_waits() -> None:
    made = board()
    made.begin(waiting(10.0))
    made.begin(waiting(10.5))
    made.expire(10.9)
    assert counts(made) == {}
    made.expire(11.1)
    assert counts(made) == {"TTFT": (0, 1), "E2E": (0, 1)}
    made.expire(11.6)
    assert counts(made) == {"TTFT": (0, 1), "E2E": (0, 1)}


def test_what_began_in_time_may_still_end_late() -> None:
    made, served = board(), waiting(10.0)
    made.begin(served)
    made.start(begun(served, 10.5), 10.5)
    made.expire(12.0)
    assert counts(made) == {"TTFT": (1, 0), "E2E": (0, 1)}
    assert made.complete(over(served, 12.5), tpot_s=None)
    assert counts(made) == {}


def test_a_refused_request_has_missed_all_but_itl() -> None:
    made = board()
    made.refuse("interactive")
    made.refuse("batch")
    assert counts(made) == {"TTFT": (0, 1), "E2E": (0, 1), "TPOT": (0, 1)}


@pytest.mark.parametrize(
    ("left_s", "is_missed", "found"),
    [(10.5, False, {}), (11.5, True, {"TTFT": (0, 1), "E2E": (0, 1)})],
)
@pytest.mark.parametrize("looked", [True, False])
def test_a_client_that_leaves_without_a_token(
    left_s: float, is_missed: bool, found: dict[str, tuple[int, int]], looked: bool
) -> None:
    made, served = board(), waiting(10.0)
    made.begin(served)
    if looked:
        made.expire(left_s)
    assert made.abandon(over(served, left_s, gaps=0), is_error=False) is is_missed
    made.expire(30.0)
    assert counts(made) == found


def test_a_client_that_leaves_during_the_answer() -> None:
    """In time so far: no sample of what it did not wait for, and no verdict."""
    made, served = board(), waiting(10.0)
    made.begin(served)
    made.start(begun(served, 10.2), 10.2)
    assert not made.abandon(over(served, 10.6), is_error=False)
    assert counts(made) == {"TTFT": (1, 0)}


def test_the_gap_it_died_in_counts_where_that_was_late() -> None:
    made, served = board(), waiting(10.0)
    made.begin(served)
    made.start(begun(served, 10.2), 10.2)
    over(served, 11.4, gaps=0)
    served.last_s = 10.2
    assert made.abandon(served, is_error=False)
    assert counts(made) == {"TTFT": (1, 0), "E2E": (0, 1), "ITL": (0, 1)}


def test_an_error_has_missed_what_was_still_open() -> None:
    made, served = board(), waiting(10.0)
    made.begin(served)
    made.start(begun(served, 10.2), 10.2)
    assert made.abandon(over(served, 10.4), is_error=True)
    made.expire(30.0)
    assert counts(made) == {"TTFT": (1, 0), "E2E": (0, 1), "TPOT": (0, 1)}


@pytest.mark.parametrize(
    ("percentile", "gaps", "late", "good"),
    [
        (95, 20, 1, True),
        (95, 20, 2, False),
        (95, 19, 1, False),  # nearest rank: all 19 of 19
        (50, 3, 1, True),
        (50, 3, 2, False),
        (99, 0, 0, True),
    ],
)
def test_goodput_goes_by_the_requests_own_gaps(
    percentile: int, gaps: int, late: int, good: bool
) -> None:
    made, served = board(percentile=percentile), waiting(10.0)
    made.begin(served)
    made.start(begun(served, 10.1), 10.1)
    assert made.complete(over(served, 10.9, late=late, gaps=gaps), tpot_s=None) is good


def test_gaps_count_by_tier_and_target() -> None:
    made = ObjectiveCounts(
        [objective(ITL, 100), objective(ITL, 200, tier=Tier.BATCH)],
    )
    made.gap("interactive", 0.1)
    made.gap("batch", 0.3)
    made.gaps("interactive", 5, lambda limit_s: 4 if limit_s == pytest.approx(0.1) else 0)
    assert made.take() == {
        "interactive:ITL:ITL@100": SloCounts(5, 1),
        "batch:ITL:ITL@200": SloCounts(0, 1),
    }
    assert made.itl_targets_ms == (100, 200)


def test_a_request_is_judged_by_what_was_in_force_when_it_came() -> None:
    made, old, new = ObjectiveCounts([objective(TTFT, 1000)]), waiting(10.0), waiting(11.0)
    made.begin(old)
    made.replace([objective(TTFT, 100)], 10.5)
    made.begin(new)
    made.start(begun(old, 10.9), 10.9)
    made.start(begun(new, 11.5), 11.5)
    assert made.take() == {
        "interactive:TTFT:TTFT@1000": SloCounts(1, 0),
        "interactive:TTFT:TTFT@100": SloCounts(0, 1),
    }
