"""Stable and panic windows, by Knative's decider."""

from __future__ import annotations

from dataclasses import replace

from bench.conformance.policies.kpa import AIBRIX, KNATIVE, KpaSettings, PodAutoscaler
from bench.conformance.policies.site import ReplicaBounds
from paceline_operator.autopilot.vocabulary.fleet import DataClass, FleetObservation
from paceline_operator.simulator.controller import NOTHING
from tests.bench.conformance.policies.observed import fleet, pod

BOUNDS = ReplicaBounds(least=1, most=50)


def loaded(in_flight: int, replicas: int) -> FleetObservation:
    """So many requests on the first of so many pods."""
    first = pod(1, running=in_flight)
    return fleet((first, *(pod(n) for n in range(2, replicas + 1))))


def kpa(settings: KpaSettings = KNATIVE) -> PodAutoscaler:
    return PodAutoscaler(settings, BOUNDS)


def test_seventy_requests_for_each_replica() -> None:
    assert kpa().decide(loaded(71, 1), 0.0).replicas == 2
    assert kpa().decide(loaded(70, 1), 0.0) == NOTHING


def test_the_stable_answer_is_that_of_the_mean() -> None:
    """100 and 40 requests on average make one replica."""
    decider = kpa()
    assert decider.decide(loaded(40, 1), 0.0) == NOTHING
    assert decider.decide(loaded(100, 1), 5.0) == NOTHING


def test_twice_what_is_ready_within_6_seconds_is_panic() -> None:
    decider = kpa()
    assert decider.decide(loaded(0, 1), 0.0) == NOTHING
    assert decider.decide(loaded(0, 1), 5.0) == NOTHING
    orders = decider.decide(loaded(400, 1), 10.0)  # mean of 0 and 400 in 6 s: 3 replicas
    assert (orders.replicas, orders.reason) == (3, "Panic")


def test_panic_keeps_its_highest_answer_for_a_stable_window() -> None:
    decider = kpa()
    decider.decide(loaded(400, 1), 0.0)
    kept = [decider.decide(loaded(0, 6), 5.0 * n).replicas for n in range(1, 13)]
    assert set(kept) == {None}
    # After it, no less than half of what is ready.
    assert decider.decide(loaded(0, 6), 65.0).replicas == 3


def test_a_new_autoscaler_keeps_what_is_ready() -> None:
    decider = kpa()
    assert [decider.decide(loaded(0, 4), 5.0 * n) for n in range(13)] == [NOTHING] * 13
    assert decider.decide(loaded(0, 4), 65.0).replicas == 2
    assert decider.decide(loaded(0, 2), 70.0).replicas == 1
    assert decider.decide(loaded(0, 1), 75.0) == NOTHING


def test_aibrix_at_most_doubles_and_waits_five_minutes_to_go_down() -> None:
    """With windows of one reading: panic ends 20 s later, its answer of 10 s stays for 300 s."""
    short = replace(AIBRIX, target=0.1, stable_window_s=10.0, panic_window_s=10.0)
    decider = kpa(short)
    full = fleet((pod(1, kv_usage=1.0), pod(2, kv_usage=1.0)))
    assert decider.decide(full, 0.0).replicas == 4  # 20 wanted, 2 ready
    idle = fleet(tuple(pod(n) for n in range(1, 5)))
    found = [decider.decide(idle, 10.0 * n).replicas for n in range(1, 33)]
    assert found == [None] * 31 + [2]


def test_without_any_reading_it_does_not_decide() -> None:
    blind = fleet((pod(1, data=DataClass.STALE),))
    assert kpa().decide(blind, 0.0) == NOTHING
    assert kpa().decide(fleet(()), 0.0) == NOTHING
