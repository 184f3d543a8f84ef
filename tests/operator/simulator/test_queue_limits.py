"""What the limit on waiting does for a fleet that is too small for its load."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline_operator.api.v1alpha1 import SloMetric, Tier
from paceline_operator.autopilot.vocabulary.policy import Objective
from paceline_operator.simulator.queue_limits import QueueLimits, by_objectives
from paceline_operator.simulator.result import Result
from paceline_operator.simulator.scoring.score import overall
from paceline_operator.simulator.scoring.yardstick import Yardstick
from tests.operator.simulator.fleets import ITL, TTFT, engine, poisson, run

BATCH = Objective(name="b", metric=SloMetric.TTFT, target_ms=60_000, tier=Tier.BATCH)
STRICT = Objective(name="strict", metric=SloMetric.TTFT, target_ms=250)
MEDIAN = Objective(name="median", metric=SloMetric.TTFT, target_ms=100, percentile=50)
HOPELESS = Objective(name="hopeless", metric=SloMetric.TTFT, target_ms=1, percentile=99)


@pytest.mark.parametrize(
    ("objectives", "limits"),
    [
        ((), ((), ())),
        ((ITL,), ((), ())),
        ((TTFT, ITL), ((1.0,), ())),
        ((TTFT, STRICT, BATCH), ((0.25, 1.0), (60.0,))),
        ((TTFT, MEDIAN, STRICT), ((0.25, 1.0, 0.1), ())),
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


@pytest.mark.parametrize("other", [MEDIAN, HOPELESS])
def test_nobody_is_refused_for_an_objective_that_is_not_gone_by(other: Objective) -> None:
    """A median, and what each prompt by itself is too long for, at a load with little room."""

    def refused(*objectives: Objective) -> int:
        limits = by_objectives(objectives)
        load = poisson(32.0, 60.0, output=20)
        result = run(load, engine=engine(queue_limits_s=limits), objectives=(TTFT,))
        return sum(not each.completed for each in result.outcomes)

    assert refused(TTFT, other) == refused(TTFT)
    assert refused(other) > refused(TTFT)


def test_the_batch_tier_is_not_held_to_the_objective_of_the_other() -> None:
    load = (replace(each, tier="batch") for each in poisson(48.0, 30.0, output=20))
    result = run(load, engine=engine(queue_limits_s=by_objectives((TTFT,))), objectives=(TTFT,))
    assert all(each.completed for each in result.outcomes)
