"""Capacity and demand in tokens, worked out by hand."""

from __future__ import annotations

import pytest

from bench.conformance.policies.gauge_history import Peak
from bench.conformance.policies.wva_tokens import TokenAnalyzer
from paceline_operator.autopilot.vocabulary.fleet import FleetObservation, PodTunables
from paceline_operator.autopilot.vocabulary.window import Latency
from tests.bench.conformance.policies.observed import fleet, histogram, pending, pod, slices

POOL = 10_000
SHAPED = slices(
    3,
    histograms={
        Latency.PROMPT_TOKENS: histogram(100.0),
        Latency.GENERATION_TOKENS: histogram(100.0),
    },
)
"""Prompts and answers of 100 tokens: 64 sequences x 150 = 9600, above k1 = 8000."""


def peak(number: int, kv: float, waiting: float = 0.0) -> Peak:
    return Peak(pod=pod(number, kv_capacity_tokens=POOL), waiting=waiting, kv_usage=kv)


def seen(replicas: int, starting: int = 0) -> FleetObservation:
    ready = tuple(pod(n) for n in range(1, replicas + 1))
    coming = tuple(pending(replicas + 1 + n) for n in range(starting))
    return fleet((*ready, *coming), slices=SHAPED)


@pytest.mark.parametrize(
    ("kv", "waiting", "expected"),
    [
        (0.80, 0, 3),  # 16000 / 0.85 = 18824 of 16000
        (0.60, 0, 2),  # 12000 / 0.85 = 14118; / 0.70 = 17143
        (0.60, 4, 2),  # 12800 / 0.85 = 15059
        (0.67, 4, 3),  # 14200 / 0.85 = 16706
        (0.50, 0, 2),  # 10000 / 0.70 = 14286: 1714 spare is no replica of 8000
        (0.20, 0, 1),  # 4000 / 0.70 = 5714
        (0.00, 0, 0),  # bounds keep one
    ],
)
def test_two_replicas_of_8000_tokens(kv: float, waiting: float, expected: int) -> None:
    found = (peak(1, kv, waiting), peak(2, kv, waiting))
    assert TokenAnalyzer().wanted(seen(2), found, None) == expected


def test_replicas_on_their_way_count_when_it_adds() -> None:
    found = (peak(1, 0.80), peak(2, 0.80))
    assert TokenAnalyzer().wanted(seen(2, starting=1), found, None) == 3
    assert TokenAnalyzer().wanted(seen(2, starting=0), found, None) == 3


def test_what_was_in_use_while_requests_waited_is_remembered() -> None:
    analyzer = TokenAnalyzer()
    # 5 wait at 5000 tokens: (5000 + 500) / 0.85 = 6471 of 5000.
    assert analyzer.wanted(seen(1), (peak(1, 0.5, 5),), None) == 2
    # Later 5000 / 0.85 = 5882 of the 5000 remembered; a new analyzer reckons with 8000.
    assert analyzer.wanted(seen(1), (peak(1, 0.5),), None) == 2
    assert TokenAnalyzer().wanted(seen(1), (peak(1, 0.5),), None) == 1


def test_a_small_budget_bounds_what_is_derived_from_arguments() -> None:
    """B = 16: 16 x 100 / 200 = 8 sequences x 150 tokens = 1200; 1100 / 0.85 = 1294."""
    knobs = PodTunables(
        effective=16, floor=16, ceiling=2048, step=16, running_seqs=64, running_ceiling=64
    )
    small = pod(1, kv_capacity_tokens=POOL, tunables=knobs)
    found = (Peak(pod=small, waiting=0, kv_usage=0.11),)
    assert TokenAnalyzer().wanted(seen(1), found, None) == 2


def test_without_traffic_the_cache_alone_counts() -> None:
    found = (peak(1, 0.80), peak(2, 0.80))
    assert TokenAnalyzer().wanted(fleet(2), found, None) == 3


def test_an_unknown_pool_says_nothing() -> None:
    unknown = Peak(pod=pod(1), waiting=9, kv_usage=0.9)
    assert TokenAnalyzer().wanted(seen(1), (unknown,), None) is None
    assert TokenAnalyzer().wanted(fleet(()), (), None) is None
