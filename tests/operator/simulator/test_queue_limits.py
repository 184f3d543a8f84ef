"""What the limit on waiting does for a fleet that is too small for its load."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline_operator.api.v1alpha1 import SloMetric, Tier
from paceline_operator.autopilot.policy import Objective
from paceline_operator.simulator.queue_limits import QueueLimits, by_objectives
from paceline_operator.simulator.result import Result
from paceline_operator.simulator.scoring.score import overall
from paceline_operator.simulator.scoring.yardstick import Yardstick
from tests.operator.simulator.fleets import ITL, TTFT, engine, poisson, run

BATCH = Objective(name="b", metric=SloMetric.TTFT, target_ms=60_000, tier=Tier.BATCH)
STRICT = Objective(name="strict", metric=SloMetric.TTFT, target_ms=250)


@pytest.mark.parametrize(
    ("objectives", "limits"),
    [
        ((), (None, None)),
        ((ITL,), (None, None)),
        ((TTFT, ITL), (1.0, None)),
        ((TTFT, STRICT, BATCH), (0.25, 60.0)),
    ],
)
def test_limits(objectives: tuple[Objective, ...], limits: QueueLimits) -> None:
    assert by_objectives(objectives) == limits


def attainment(result: Result) -> float:
    return overall(result.outcomes, Yardstick((TTFT,)).goodput).share


def test_in_one_queue_all_are_late_and_with_a_limit_who_is_let_in_is_on_time() -> None:
    """Two replicas that serve 35 requests a second are offered 36, and then 48, for a minute."""

    def offered(rate: float, limits: QueueLimits | None) -> Result:
        load = poisson(rate, 60.0, output=20)
        return run(load, engine=engine(queue_limits_s=limits), objectives=(TTFT,))

    limits = by_objectives((TTFT,))
    assert attainment(offered(36.0, None)) < 0.2
    assert attainment(offered(36.0, limits)) > 0.9
    assert attainment(offered(48.0, None)) < 0.1
    assert attainment(offered(48.0, limits)) > 0.6


def test_the_batch_tier_is_not_held_to_the_objective_of_the_other() -> None:
    load = (replace(each, tier="batch") for each in poisson(48.0, 30.0, output=20))
    result = run(load, engine=engine(queue_limits_s=by_objectives((TTFT,))), objectives=(TTFT,))
    assert all(each.completed for each in result.outcomes)
