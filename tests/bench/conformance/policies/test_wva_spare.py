"""Spare capacity, by the worked examples of the WVA's documentation and by hand."""

from __future__ import annotations

import pytest

from bench.conformance.policies.gauge_history import Peak
from bench.conformance.policies.wva_spare import SpareAnalyzer
from tests.bench.conformance.policies.observed import fleet, pending, pod

Reading = tuple[float, float]


def peaks(*readings: Reading) -> tuple[Peak, ...]:
    """Of pods given as (KV use, waiting)."""
    return tuple(
        Peak(pod=pod(n + 1), waiting=waiting, kv_usage=kv)
        for n, (kv, waiting) in enumerate(readings)
    )


@pytest.mark.parametrize(
    ("readings", "expected"),
    [
        (((0.65, 0), (0.72, 0)), 2),  # 0.115 spare on average
        (((0.65, 0), (0.76, 0)), 3),  # 0.095
        (((0.90, 0), (0.85, 9)), 3),  # all saturated: nothing is spare
        (((0.0, 3), (0.0, 3)), 3),  # 2 places spare
        (((0.20, 0), (0.20, 0)), 1),  # 0.40 of 0.80 on one
        (((0.36, 0), (0.36, 0)), 2),  # 0.72 on one would spare 0.08
        (((0.0, 1), (0.0, 1)), 1),  # 2 of 5 places on one
        (((0.0, 2), (0.0, 2)), 2),  # 4 of 5
        (((0.0, 0), (0.90, 0)), 2),  # one unsaturated is too few to give one back
        (((0.0, 0),), 1),
    ],
)
def test_one_more_one_less_or_as_many(readings: tuple[Reading, ...], expected: int) -> None:
    found = peaks(*readings)
    assert SpareAnalyzer().wanted(fleet(len(readings)), found, None) == expected


def test_nothing_while_the_fleet_changes() -> None:
    idle = peaks((0.0, 0), (0.0, 0))
    starting = fleet((pod(1), pod(2), pending(3)), desired_replicas=3)
    assert SpareAnalyzer().wanted(starting, idle, None) is None
    assert SpareAnalyzer().wanted(fleet(3), idle, None) is None  # one does not report
    assert SpareAnalyzer().wanted(fleet(2), idle, 3) is None  # the HPA has not followed yet
    assert SpareAnalyzer().wanted(fleet(2), idle, 2) == 1
    assert SpareAnalyzer().wanted(fleet(()), (), None) is None
