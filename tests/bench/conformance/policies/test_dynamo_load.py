"""The load-based rule on engines whose law is known: 10 ms + 0.05 + 0.0001.

With prompts of 500 tokens, 150 prompt tokens in a mean step and 700 KV tokens for a sequence more,
an engine with 10,000 KV tokens and nothing waiting gives a first token in 10 + 25 + 1 = 36 ms and
a gap of 10 + 7.5 + 1.07 = 18.57 ms.
"""

from __future__ import annotations

import pytest

from bench.conformance.policies.dynamo_engine import Latencies
from bench.conformance.policies.dynamo_load import DynamoLoad
from bench.conformance.policies.site import ReplicaBounds
from paceline_operator.autopilot.vocabulary.fleet import FleetObservation, PodObservation
from paceline_operator.simulator.controller import NOTHING
from tests.bench.conformance.policies.observed import fleet, learned, pending, pod, stale

BOUNDS = ReplicaBounds(least=1, most=5)


def engine(number: int, waiting_tokens: int = 0, kv_usage: float = 0.1) -> PodObservation:
    return pod(number, waiting_tokens=waiting_tokens, kv_usage=kv_usage, kv_capacity_tokens=100_000)


def seen(*pods: PodObservation, desired: int | None = None) -> FleetObservation:
    wanted = len(pods) if desired is None else desired
    return fleet(pods, slices=learned(), desired_replicas=wanted)


def asked(observed: FleetObservation, ttft_ms: float = 100.0, itl_ms: float = 30.0) -> int | None:
    rule = DynamoLoad(Latencies(ttft_ms=ttft_ms, itl_ms=itl_ms), BOUNDS)
    rule.engine.observe(observed)
    return rule.wanted(observed)


@pytest.mark.parametrize(
    ("waiting", "expected"),
    [
        ((2000, 2000), 3),  # 2500 tokens: 4 x 36.6 + 33.6 = 180 ms on both
        ((2000, 0), 2),  # late on one only; 4000 on the survivor would be too many
        ((0, 0), 1),  # own prompt 37 ms at twice the KV; no queue; gap 19.57 < 24 ms
        ((250, 250), 1),  # 1000 on the survivor: 37.6 + 36.4, 37 ms of queue of the 50.4 allowed
        ((300, 300), 2),  # 1100: 37.6 + 37.6 + 15.8, 54 ms of queue
    ],
)
def test_one_step_at_a_time(waiting: tuple[int, int], expected: int) -> None:
    observed = seen(engine(1, waiting[0]), engine(2, waiting[1]))
    assert asked(observed) == expected


@pytest.mark.parametrize(
    ("itl_ms", "kv_usage", "expected"),
    [
        (18.0, 0.1, 3),  # 18.57 ms on both
        (24.0, 0.1, 2),  # the survivor's 19.57 ms are above 80 % of 24
        (25.0, 0.1, 1),  # and below 80 % of 25
        (100.0, 0.5, 2),  # 100,000 KV tokens fill the survivor's cache
    ],
)
def test_gaps_and_cache(itl_ms: float, kv_usage: float, expected: int) -> None:
    observed = seen(engine(1, kv_usage=kv_usage), engine(2, kv_usage=kv_usage))
    assert asked(observed, itl_ms=itl_ms) == expected


def test_a_target_below_the_own_prompt_never_lets_one_go() -> None:
    """37 ms at the survivor's KV load leave nothing of 36.5 ms for a queue."""
    assert asked(seen(engine(1), engine(2)), ttft_ms=36.5) == 2


@pytest.mark.parametrize(
    "observed",
    [
        seen(engine(1), pending(2)),
        seen(engine(1), stale(2)),
        seen(engine(1), engine(2), desired=3),
        seen(desired=1),
        fleet((engine(1), engine(2))),  # nothing learned
    ],
    ids=["starting", "unread", "ordered", "none", "new"],
)
def test_it_only_watches_while_anything_is_under_way_or_unknown(
    observed: FleetObservation,
) -> None:
    assert asked(observed) is None


def test_the_last_one_stays_and_the_bounds_hold() -> None:
    assert asked(seen(engine(1))) == 1
    rule = DynamoLoad(Latencies(ttft_ms=1.0, itl_ms=1.0), ReplicaBounds(least=1, most=2))
    assert rule.decide(seen(engine(1)), 0.0).replicas == 2
    assert rule.decide(seen(engine(1), engine(2)), 5.0) == NOTHING
    assert 9.0 < rule.next_due_s <= 10.0


def test_at_zero_traffic_it_goes_down_one_by_one() -> None:
    """Dynamo's throughput rule holds then; this one reads queues and caches."""
    rule = DynamoLoad(Latencies(ttft_ms=100.0, itl_ms=30.0), BOUNDS)
    rule.engine.observe(seen(engine(1)))
    quiet = fleet((engine(1, kv_usage=0.0), engine(2, kv_usage=0.0), engine(3, kv_usage=0.0)))
    assert rule.decide(quiet, 0.0).replicas == 2
