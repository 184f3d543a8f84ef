"""The throughput-based rule, alone and as a floor.

With prompts of 500 and answers of 100 tokens the batch is bound by 64 sequences: 320 prompt
tokens and 35,200 KV tokens a step, 10 + 16 + 3.52 = 29.52 ms, 64 / 2.952 s = 21.68 requests/s.
"""

from __future__ import annotations

import pytest

from bench.conformance.policies.dynamo_engine import Latencies
from bench.conformance.policies.dynamo_load import DynamoLoad
from bench.conformance.policies.dynamo_throughput import DynamoThroughput
from bench.conformance.policies.site import ReplicaBounds
from paceline_operator.autopilot.vocabulary.fleet import FleetObservation
from paceline_operator.simulator.controller import NOTHING
from tests.bench.conformance.policies.observed import fleet, learned, pod

BOUNDS = ReplicaBounds(least=1, most=10)
LOOSE = Latencies(ttft_ms=1e6, itl_ms=1e6)


def seen(requests_per_s: float, replicas: int = 2) -> FleetObservation:
    """Half a minute of that rate."""
    pods = tuple(pod(n, kv_capacity_tokens=100_000) for n in range(1, replicas + 1))
    return fleet(pods, slices=learned(requests=5.0 * requests_per_s))


@pytest.mark.parametrize(
    ("requests_per_s", "expected"),
    [(120.0, 6), (43.0, None), (44.0, 3), (21.0, 1), (300.0, 10)],
)
def test_demand_over_what_one_engine_carries(requests_per_s: float, expected: int | None) -> None:
    rule = DynamoThroughput(LOOSE, BOUNDS)
    assert rule.decide(seen(requests_per_s), 0.0) == NOTHING
    assert rule.decide(seen(requests_per_s), 175.0) == NOTHING
    assert rule.decide(seen(requests_per_s), 180.0).replicas == expected


def test_less_can_be_counted_on() -> None:
    rule = DynamoThroughput(LOOSE, BOUNDS, counted_on=0.5)
    assert rule.decide(seen(44.0), 0.0) == NOTHING
    assert rule.decide(seen(44.0), 180.0).replicas == 5  # 44 / 10.84 = 4.06


def test_at_zero_traffic_it_holds() -> None:
    """ai-dynamo/dynamo#6985."""
    rule = DynamoThroughput(LOOSE, BOUNDS)
    quiet = fleet(3, slices=learned(requests=0.0))
    assert [rule.decide(quiet, 180.0 * n) for n in range(5)] == [NOTHING] * 5


def test_it_is_the_floor_of_the_load_rule() -> None:
    load = DynamoLoad(LOOSE, BOUNDS)
    both = DynamoThroughput(LOOSE, BOUNDS, load)
    # The load rule alone sees nothing to do and gives one back.
    assert both.decide(seen(120.0), 0.0).replicas == 1
    assert both.decide(seen(120.0), 180.0).replicas == 6
    assert both.decide(seen(120.0, replicas=6), 185.0) == NOTHING
    assert both.decide(seen(120.0, replicas=8), 190.0).replicas == 7
