"""KEDA's triggers as an HPA acts on them."""

from __future__ import annotations

import pytest

from bench.conformance.policies.gauge import Gauge
from bench.conformance.policies.keda import (
    KV_USAGE,
    RUNNING,
    WAITING,
    ScaledObject,
    Trigger,
    keda,
)
from bench.conformance.policies.site import ReplicaBounds
from paceline_operator.autopilot.vocabulary.fleet import DataClass
from tests.bench.conformance.policies.observed import fleet, gauges, pod, stale

BOUNDS = ReplicaBounds(least=1, most=20)


@pytest.mark.parametrize(
    ("waiting", "expected"),
    [
        ((5, 5), None),
        ((0, 16), 4),  # 16 / 5
        ((10, 10), 4),
        ((30, 30), 6),  # 12 wanted, no more than 2 + 4
        ((5, 5, 6), None),  # 1.067
        ((6, 6, 5), 4),  # 1.133
    ],
)
def test_five_waiting_for_each_replica(waiting: tuple[int, ...], expected: int | None) -> None:
    assert keda(WAITING, BOUNDS).decide(gauges(*waiting), 0.0).replicas == expected


def test_a_well_loaded_fleet_with_an_empty_queue_is_shed_to_one() -> None:
    """The rule's known weakness: nothing waits when idle, nor when just busy enough."""
    hpa = keda(WAITING, BOUNDS)
    busy = tuple(pod(n, running=64, kv_usage=0.9) for n in range(1, 5))
    found = [hpa.decide(fleet(busy), 15.0 * n).replicas for n in range(21)]
    assert found == [None] * 20 + [1]


def test_kv_use_by_its_sum() -> None:
    seen = fleet((pod(1, kv_usage=0.9), pod(2, kv_usage=0.95)))
    assert keda(KV_USAGE, BOUNDS).decide(seen, 0.0).replicas == 3  # 1.85 / 0.8


def test_requests_in_flight_at_16() -> None:
    seen = fleet((pod(1, running=20, waiting=4), pod(2, running=25)))
    assert keda(RUNNING, BOUNDS).decide(seen, 0.0).replicas == 4  # 49 / 16


def test_the_series_of_a_pod_that_does_not_answer_are_gone() -> None:
    seen = fleet((pod(1, waiting=10), stale(2, waiting=10)))
    assert keda(WAITING, BOUNDS).decide(seen, 0.0).replicas is None


def test_all_series_gone_read_as_nothing_to_do() -> None:
    """`ignoreNullValues`: an outage of the metrics scales the fleet down."""
    hpa = keda(WAITING, BOUNDS)
    blind = fleet(tuple(pod(n, waiting=9, data=DataClass.ABSENT) for n in (1, 2, 3)))
    assert [hpa.decide(blind, 15.0 * n).replicas for n in range(21)] == [None] * 20 + [1]


def test_the_largest_trigger_counts() -> None:
    triggers = (
        Trigger(gauge=Gauge.WAITING, threshold=1.0),
        Trigger(gauge=Gauge.IN_FLIGHT, threshold=16.0),
    )
    seen = fleet((pod(1, running=30, waiting=1), pod(2, running=30, waiting=1)))
    assert keda(ScaledObject(triggers=triggers), BOUNDS).decide(seen, 0.0).replicas == 4


def test_cached_values_are_as_old_as_the_polling_interval() -> None:
    cached = keda(ScaledObject(triggers=WAITING.triggers, use_cached_metrics=True), BOUNDS)
    assert cached.decide(gauges(0, 10), 0.0).replicas is None
    assert cached.decide(gauges(20, 20), 15.0).replicas is None
    assert cached.decide(gauges(10, 10), 30.0).replicas == 4
