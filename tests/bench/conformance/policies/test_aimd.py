"""Additive increase, multiplicative decrease of the budget."""

from __future__ import annotations

from typing import Any

import pytest

from bench.conformance.policies.aimd import Aimd
from paceline_operator.autopilot.vocabulary.fleet import FleetObservation, PodTunables, Tunables
from paceline_operator.autopilot.vocabulary.window import Histogram, Latency
from paceline_operator.simulator.controller import NOTHING
from tests.bench.conformance.policies.observed import fleet, histogram, pod, slices


def seen(gap_s: float, budget: int = 512, samples: float = 500.0, **more: Any) -> FleetObservation:
    agreed = Tunables(max_num_batched_tokens=budget, max_num_running_seqs=64)
    felt = slices(2, histograms={Latency.ITL: histogram(gap_s, samples)})
    return fleet(2, slices=felt, desired_tunables=agreed, **more)


@pytest.mark.parametrize(
    ("gap_s", "budget", "expected"),
    [
        (0.049, 512, 576),
        (0.051, 512, 448),  # 460.8, on steps of 16
        (0.051, 85, 80),  # the floor
        (0.049, 2000, 2048),  # the ceiling
    ],
)
def test_up_by_64_down_by_a_tenth(gap_s: float, budget: int, expected: int) -> None:
    tunables = Aimd(50.0).decide(seen(gap_s, budget), 0.0).tunables
    assert tunables == Tunables(max_num_batched_tokens=expected, max_num_running_seqs=64)


@pytest.mark.parametrize(
    "observed",
    [
        seen(0.049, 2048),
        seen(0.051, 80),
        seen(0.051, samples=40.0),  # 80 gaps in 10 s
        fleet(2),
        fleet((pod(1, tunables=None),), slices=slices(2)),
    ],
    ids=["at the ceiling", "at the floor", "few gaps", "no gaps", "no engine known"],
)
def test_nothing(observed: FleetObservation) -> None:
    assert Aimd(50.0).decide(observed, 0.0) == NOTHING


def test_a_quantile_is_blind_beyond_itself() -> None:
    """4 % of the gaps take half a second: the budget that makes them still grows."""
    gaps = Histogram((0.02, 0.5, float("inf")), (960.0, 40.0, 0.0), 40.0)
    observed = fleet(1, slices=slices(2, histograms={Latency.ITL: gaps}))
    tunables = Aimd(50.0).decide(observed, 0.0).tunables
    assert tunables is not None
    assert tunables.max_num_batched_tokens == 576


def test_before_anything_was_pushed_it_starts_from_the_engines() -> None:
    knobs = PodTunables(
        effective=1024, floor=80, ceiling=2048, step=128, running_seqs=32, running_ceiling=64
    )
    felt = slices(2, histograms={Latency.ITL: histogram(0.06, 500.0)})
    observed = fleet((pod(1, tunables=knobs),), slices=felt, desired_tunables=None)
    expected = Tunables(max_num_batched_tokens=896, max_num_running_seqs=32)  # 921.6
    assert Aimd(50.0).decide(observed, 0.0).tunables == expected


def test_it_moves_every_ten_seconds() -> None:
    rule = Aimd(50.0)
    rule.decide(seen(0.049), 100.0)
    assert 105.0 < rule.next_due_s <= 110.0
