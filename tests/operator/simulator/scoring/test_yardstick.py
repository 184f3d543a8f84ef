from __future__ import annotations

import pytest

from paceline_operator.api.v1alpha1 import SloMetric, Tier
from paceline_operator.autopilot.vocabulary.policy import Objective
from paceline_operator.simulator.scoring.outcome import (
    ABORTED,
    COMPLETED,
    REFUSED,
    UNFINISHED,
    Outcome,
)
from paceline_operator.simulator.scoring.yardstick import Yardstick, itl_targets_ms

OBJECTIVES = {
    metric: Objective(name=metric.value, metric=metric, target_ms=target_ms, percentile=90)
    for metric, target_ms in (
        (SloMetric.TTFT, 1000),
        (SloMetric.ITL, 100),
        (SloMetric.TPOT, 60),
        (SloMetric.E2E, 5000),
    )
}
BATCH_ITL = Objective(name="slow", metric=SloMetric.ITL, target_ms=50, tier=Tier.BATCH)
GIVEN = (*OBJECTIVES.values(), BATCH_ITL)
YARDSTICK = Yardstick(GIVEN)

WHOLE = Outcome(7.0, "interactive", 0.9, 2.0, 20, (9, 2))
SLOW_START = Outcome(7.0, "interactive", 1.1, 2.0, 20, (9, 2))
UNSTEADY = Outcome(7.0, "interactive", 0.9, 6.0, 20, (9, 3))
ONE_TOKEN = Outcome(7.0, "interactive", 0.9, 0.9)
LEFT = Outcome(7.0, "interactive", 0.9, None, 5, (5, 1), ABORTED)
GONE = Outcome(7.0, "interactive", None, None, 0, (), ABORTED)
TURNED_AWAY = Outcome(7.0, "interactive", outcome=REFUSED)
OPEN = Outcome(7.0, "interactive", 0.9, None, 0, (), UNFINISHED)
BATCH = Outcome(7.0, "batch", 30.0, 90.0, 40, (2, 0), COMPLETED)


def test_targets_of_gaps_are_those_of_both_tiers_in_order() -> None:
    assert itl_targets_ms(GIVEN) == (50, 100)


@pytest.mark.parametrize(
    ("outcome", "good"),
    [
        (WHOLE, 1),
        (SLOW_START, 0),
        (UNSTEADY, 0),
        (ONE_TOKEN, 1),
        (LEFT, 0),
        (GONE, 0),
        (TURNED_AWAY, 0),
        (OPEN, 0),
        (BATCH, 1),
    ],
)
def test_goodput(outcome: Outcome, good: int) -> None:
    """Of both tiers alike; TPOT and E2E do not matter."""
    assert YARDSTICK.goodput(outcome) == (good, 1)


@pytest.mark.parametrize(
    ("outcome", "ttft", "itl", "tpot", "e2e"),
    [
        (WHOLE, (1, 1), (18, 20), (1, 1), (1, 1)),
        (SLOW_START, (0, 1), (18, 20), (1, 1), (1, 1)),
        (UNSTEADY, (1, 1), (17, 20), (0, 1), (0, 1)),
        (ONE_TOKEN, (1, 1), (0, 0), (0, 0), (1, 1)),
        (LEFT, (1, 1), (4, 5), (0, 1), (0, 1)),
        (GONE, (0, 1), (0, 0), (0, 1), (0, 1)),
        (TURNED_AWAY, (0, 1), (0, 0), (0, 1), (0, 1)),
        (OPEN, (1, 1), (0, 0), (0, 1), (0, 1)),
        (BATCH, (0, 0), (0, 0), (0, 0), (0, 0)),
    ],
)
def test_samples_of_each_objective(
    outcome: Outcome,
    ttft: tuple[int, int],
    itl: tuple[int, int],
    tpot: tuple[int, int],
    e2e: tuple[int, int],
) -> None:
    found = {metric: YARDSTICK.samples(each, outcome) for metric, each in OBJECTIVES.items()}
    assert found == {
        SloMetric.TTFT: ttft,
        SloMetric.ITL: itl,
        SloMetric.TPOT: tpot,
        SloMetric.E2E: e2e,
    }


def test_gaps_of_batch_go_by_their_own_target() -> None:
    assert YARDSTICK.samples(BATCH_ITL, BATCH) == (38, 40)
