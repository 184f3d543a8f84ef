"""Pods that serve and are not measured."""

from __future__ import annotations

import pytest

from paceline_operator.autopilot.demand.forecast import rates
from paceline_operator.autopilot.pilot import step
from paceline_operator.autopilot.plant.workload import Workload
from paceline_operator.autopilot.replicas import unseen
from paceline_operator.autopilot.situation.situation import Situation, understand
from paceline_operator.autopilot.vocabulary.decision import Action, Knob, Reason
from paceline_operator.autopilot.vocabulary.fleet import LOST_AFTER_S, DataClass, PodObservation
from paceline_operator.autopilot.vocabulary.memory import Memory
from tests.operator.autopilot.build import auto, fleet, pod
from tests.operator.autopilot.test_pilot import NOW, calm, rested


def silent(number: int, data: DataClass = DataClass.ABSENT, ready_s: float = 0.0) -> PodObservation:
    return pod(number, data=data, ready_since_s=ready_s)


def pods(number: int, *others: PodObservation) -> tuple[PodObservation, ...]:
    """So many of which each is measured, and the others."""
    return (*(pod(100 + n) for n in range(number)), *others)


def situation(*given: PodObservation) -> Situation:
    return understand(auto(), fleet(given, now_s=NOW), Memory(), NOW)


@pytest.mark.parametrize(
    ("given", "hides", "too_many"),
    [
        (pods(3), False, False),
        (pods(3, silent(1, DataClass.STALE)), True, False),
        (pods(3, silent(1)), False, False),
        (pods(3, silent(1, ready_s=NOW - LOST_AFTER_S)), True, False),
        (pods(1, silent(1)), False, False),
        (pods(3, silent(1), silent(2)), True, True),
        (pods(8, silent(1), silent(2)), False, False),
        (pods(7, silent(1), silent(2)), True, True),
        (pods(7, silent(1), silent(2, DataClass.STALE)), True, False),
    ],
    ids=["none", "stale", "lost", "new", "one of two", "two of five", "two of ten", "two of nine",
         "lost and stale"],
)  # fmt: skip
def test_what_hides_demand(
    given: tuple[PodObservation, ...], *, hides: bool, too_many: bool
) -> None:
    s = situation(*given)
    assert (unseen.hides_demand(s), unseen.too_many(s)) == (hides, too_many)


def test_lost_pods_are_taken_to_be_offered_as_much_as_the_others() -> None:
    workload = Workload(prompt_mean=1000.0)
    seen, whole = calm(pods=pods(3)), calm(pods=pods(3, silent(1)))
    assert rates(seen, workload)[60.0] > 0
    for span_s, rate in rates(seen, workload).items():
        assert rates(whole, workload)[span_s] == pytest.approx(rate * 4 / 3)
    blind = fleet((silent(1), silent(2)), now_s=NOW)
    assert (blind.seen_share, len(blind.lost)) == (1.0, 2)


@pytest.mark.parametrize(("lost", "reason"), [(1, Reason.DEMAND_LOW), (2, Reason.PODS_UNMEASURED)])
def test_one_lost_pod_keeps_no_replica_and_two_of_four_say_what_to_do(
    lost: int, reason: Reason
) -> None:
    given = pods(4 - lost, *(silent(n + 1) for n in range(lost)))
    tick = step(auto(), calm(pods=given, desired_replicas=4), rested(), NOW)
    (decision,) = (each for each in tick.decisions if each.knob is Knob.REPLICAS)
    assert decision.reason is reason
    assert (decision.action is Action.SCALE_IN) is (lost == 1)
    if lost == 1:
        assert tick.scaling_limit is None
        return
    assert tick.scaling_limit is not None
    assert tick.scaling_limit.reason is Reason.PODS_UNMEASURED
    assert "pod-1, pod-2" in tick.scaling_limit.message
    assert "delete them" in tick.scaling_limit.message
