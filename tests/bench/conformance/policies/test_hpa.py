"""The HPA's arithmetic, by its documentation and the cases of its replica calculator."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.conformance.policies.gauge import Gauge
from bench.conformance.policies.hpa import (
    AverageValueMetric,
    CpuMetric,
    HorizontalPodAutoscaler,
    PodsMetric,
    by_pods,
    by_total,
)
from bench.conformance.policies.site import ReplicaBounds
from paceline_operator.autopilot.vocabulary.fleet import FleetObservation
from paceline_operator.simulator.controller import NOTHING
from tests.bench.conformance.policies.observed import busy, fleet, gauges, pending, pod, stale

BOUNDS = ReplicaBounds(least=1, most=20)


def cpu(share: float, replicas: int = 4) -> FleetObservation:
    return fleet(replicas, slices=busy(share, replicas))


def asked(hpa: HorizontalPodAutoscaler, seen: FleetObservation, now_s: float) -> int | None:
    return hpa.decide(seen, now_s).replicas


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        (0.80, None),  # on target
        (0.87, None),  # 1.0875: within 10 %
        (0.90, 5),  # 1.125 x 4 = 4.5
        (1.00, 5),  # 1.25 x 4
        (0.73, None),  # 0.9125: within 10 %
    ],
)
def test_cpu_at_the_default_of_80_percent(share: float, expected: int | None) -> None:
    hpa = HorizontalPodAutoscaler((CpuMetric(),), BOUNDS)
    assert asked(hpa, cpu(share), 0.0) == expected


def test_down_only_after_five_minutes_and_at_no_traffic_to_the_minimum() -> None:
    hpa = HorizontalPodAutoscaler((CpuMetric(),), BOUNDS)
    found = [asked(hpa, cpu(0.0), 15.0 * n) for n in range(21)]
    assert found == [None] * 20 + [1]


def test_it_is_asked_every_15_seconds() -> None:
    hpa = HorizontalPodAutoscaler((CpuMetric(),), BOUNDS)
    assert hpa.next_due_s < 0
    hpa.decide(cpu(0.8), 100.0)
    assert 110.0 < hpa.next_due_s <= 115.0


def test_without_metrics_nothing_moves() -> None:
    hpa = HorizontalPodAutoscaler((CpuMetric(),), BOUNDS)
    assert hpa.decide(fleet(4), 0.0) == NOTHING
    assert hpa.decide(fleet(()), 15.0) == NOTHING


def test_pods_that_start_count_as_idle_on_the_way_up() -> None:
    """2 of 4 ready at 1.25 of the target: 0.625 with the other two, and that is no way down."""
    seen = fleet((pod(1), pod(2), pending(3), pending(4)), desired_replicas=4)
    assert by_pods([1.0, 1.0], 0.8, seen, 0.1) == 4


def test_pods_that_start_are_left_out_on_the_way_down() -> None:
    """2 ready at half the target: one is enough."""
    seen = fleet((pod(1), pod(2), pending(3)), desired_replicas=3)
    assert by_pods([0.4, 0.4], 0.8, seen, 0.1) == 1


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1.9, 5),  # 2.375 of the target, 1.583 with one idle: 4.75 of 3
        (1.0, 3),  # 1.25, but 0.833 with one idle: no move
        (0.2, 2),  # 0.25, and 0.5 with one on target: 2 of 3
    ],
)
def test_pods_without_metrics_dampen_either_way(value: float, expected: int) -> None:
    seen = fleet((pod(1), pod(2), stale(3)), desired_replicas=3)
    assert by_pods([value, value], 0.8, seen, 0.1) == expected


@pytest.mark.parametrize(
    ("total", "replicas", "expected"),
    [(15.0, 3, 3), (16.0, 3, 3), (17.0, 3, 4), (13.0, 3, 3), (0.0, 3, 0), (7.0, 0, 2)],
)
def test_a_sum_against_a_target_for_each_replica(
    total: float, replicas: int, expected: int
) -> None:
    assert by_total(total, 5.0, replicas, 0.1) == expected


def test_the_largest_answer_counts() -> None:
    metrics = (
        PodsMetric(gauge=Gauge.WAITING, target=5.0),
        AverageValueMetric(gauge=Gauge.IN_FLIGHT, target=4.0),
    )
    hpa = HorizontalPodAutoscaler(metrics, BOUNDS)
    assert asked(hpa, gauges(8, 8), 0.0) == 4  # 1.6 x 2 = 3.2, and 16 / 4


def test_with_one_unreadable_metric_it_goes_up_but_never_down() -> None:
    metrics = (CpuMetric(), AverageValueMetric(gauge=Gauge.WAITING, target=5.0))
    hpa = HorizontalPodAutoscaler(metrics, BOUNDS)
    assert [hpa.decide(gauges(0, 0), 15.0 * n) for n in range(30)] == [NOTHING] * 30
    assert asked(hpa, gauges(20, 10), 450.0) == 6


def test_a_pod_on_its_way_out_is_no_replica() -> None:
    leaving = replace(pod(3, waiting=0), draining=True)
    seen = fleet((pod(1, waiting=6), pod(2, waiting=6), leaving), desired_replicas=2)
    metric = PodsMetric(gauge=Gauge.WAITING, target=5.0)
    assert metric.replicas(seen, 0.1, 0.0) == 3  # 1.2 x 2 = 2.4
