"""The SLO-aware guide's control law, worked out by hand."""

from __future__ import annotations

import pytest

from bench.conformance.policies.latency_saturation import LatencySaturation
from bench.conformance.policies.site import ReplicaBounds
from paceline_operator.autopilot.vocabulary.fleet import FleetObservation
from paceline_operator.autopilot.vocabulary.window import Latency
from tests.bench.conformance.policies.observed import fleet, histogram, pending, pod, slices

BOUNDS = ReplicaBounds(least=1, most=30)


def seen(
    ttft_s: float, tpot_s: float = 0.001, replicas: int = 4, starting: int = 0
) -> FleetObservation:
    pods = [pod(n) for n in range(1, replicas + 1)]
    coming = [pending(replicas + 1 + n) for n in range(starting)]
    felt = {Latency.TTFT: histogram(ttft_s), Latency.TPOT: histogram(tpot_s)}
    return fleet((*pods, *coming), slices=slices(12, histograms=felt))


def settled(observed: FleetObservation, seconds: float = 30.0) -> int | None:
    """What is ordered once the same was seen for so long; targets 1 s and 100 ms."""
    rule = LatencySaturation(1000.0, 100.0, BOUNDS)
    found = [rule.decide(observed, 15.0 * n).replicas for n in range(int(seconds // 15) + 1)]
    assert set(found[:-1]) <= {None}
    return found[-1]


@pytest.mark.parametrize(
    ("ttft_s", "tpot_s", "expected"),
    [
        (0.59, 0.001, 5),  # 4 x (0.59 / 0.55 - 1) = 0.29
        (0.10, 0.080, 6),  # 4 x (0.80 / 0.55 - 1) = 1.82
        (0.50, 0.050, None),  # between 0.40 and 0.55
        (9.00, 0.001, 8),  # 2.0 at most: 11 more, but no more than double or 4 in a minute
    ],
)
def test_up_after_half_a_minute(ttft_s: float, tpot_s: float, expected: int | None) -> None:
    assert settled(seen(ttft_s, tpot_s)) == expected


def test_replicas_on_their_way_are_credited() -> None:
    """2 of 4 ready: 0.9 counts as 0.45; 1.4 as 0.70, and 4 x (0.70 / 0.55 - 1) = 1.09."""
    assert settled(seen(0.9, replicas=2, starting=2)) is None
    assert settled(seen(1.4, replicas=2, starting=2)) == 6


@pytest.mark.parametrize("ttft_s", [0.30, 0.01])
def test_down_by_one_after_three_minutes(ttft_s: float) -> None:
    """0.30 lets floor(4 x 0.25) = 1 go, next to nothing all four; one pod goes in two minutes."""
    assert settled(seen(ttft_s), 180.0) == 3


def test_an_idle_fleet_goes_to_its_minimum() -> None:
    rule = LatencySaturation(1000.0, 100.0, BOUNDS)
    current, found = 3, []
    for n in range(60):
        orders = rule.decide(fleet(current, slices=slices(12)), 15.0 * n)
        if orders.replicas is not None:
            found.append((15.0 * n, orders.replicas))
            current = orders.replicas
    assert found == [(180.0, 2), (300.0, 1)]


def test_one_spike_fades_with_the_average() -> None:
    """2.0 once and 0.1 from then on: 2.0, 1.05, 0.73, then 0.10 once it is 45 s old."""
    rule = LatencySaturation(1000.0, 100.0, BOUNDS)
    rule.decide(seen(9.0), 0.0)
    found = [rule.decide(seen(0.1), 15.0 * n).replicas for n in range(1, 5)]
    # At 30 s the lowest wish of the window is that of 4 x (0.733 / 0.55 - 1) = 1.33.
    assert found == [None, 6, None, None]
