"""All baselines: their settings make sense, and nothing they may see makes them fail."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.conformance.policies.catalogue import (
    BASELINES,
    Baseline,
    default_budget,
    find_baseline,
)
from bench.conformance.policies.site import ReplicaBounds, Site
from paceline_operator.autopilot.vocabulary.fleet import DataClass, FleetObservation, PodObservation
from paceline_operator.autopilot.vocabulary.window import Latency
from tests.bench.conformance.policies.observed import (
    busy,
    fleet,
    histogram,
    learned,
    pod,
    slices,
)

SITE = Site(
    bounds=ReplicaBounds(least=1, most=8),
    ttft_ms=500.0,
    itl_ms=50.0,
    running_seqs=64,
    budget_ceiling=4096,
)
NAMES = [baseline.name for baseline in BASELINES]


@pytest.mark.parametrize("baseline", BASELINES, ids=NAMES)
def test_the_sweep_goes_one_way_and_reaches_as_far_as_the_default(baseline: Baseline) -> None:
    """Every main setting is one of which more is cheaper."""
    assert list(baseline.sweep) == sorted(set(baseline.sweep))
    assert baseline.sweep[0] < baseline.default <= baseline.sweep[-1]


def test_names_are_unique_and_found() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert find_baseline("wva-v2").name == "wva-v2"


def test_a_static_budget_is_pushed_beside_it_within_what_engines_take() -> None:
    controller = find_baseline("keda-waiting").controller(SITE, budget=default_budget("h100"))
    tunables = controller.decide(fleet(2), 0.0).tunables
    assert tunables is not None
    assert tunables.max_num_batched_tokens == 4096
    assert default_budget("llama-3-8b-a100") == 2048
    assert default_budget("llama-3-8b-h100") == 8192


def pods() -> st.SearchStrategy[tuple[PodObservation, ...]]:
    """Up to five, in any state an operator may find them in."""
    data = st.sampled_from(DataClass)
    state: dict[str, Any] = {
        "ready": st.booleans(),
        "draining": st.booleans(),
        "data": data,
        "running": st.integers(0, 64),
        "waiting": st.integers(0, 500),
        "waiting_tokens": st.integers(0, 500_000),
        "kv_usage": st.floats(0, 1),
        "kv_capacity_tokens": st.sampled_from([None, 100_000]),
    }
    one = st.builds(pod, **state)
    return st.lists(one, max_size=5).map(tuple)


MEASURED = (
    (),
    slices(6),
    busy(0.95, 3),
    learned(),
    slices(12, histograms={Latency.TTFT: histogram(4.0), Latency.ITL: histogram(0.09)}),
)


def observations() -> st.SearchStrategy[FleetObservation]:
    return st.builds(
        lambda made, seen, desired: fleet(made, slices=seen, desired_replicas=desired),
        pods(),
        st.sampled_from(MEASURED),
        st.integers(1, 8),
    )


@pytest.mark.parametrize("baseline", BASELINES, ids=NAMES)
@settings(max_examples=12)
@given(seen=st.lists(observations(), min_size=1, max_size=6), every_s=st.sampled_from([5, 60, 200]))
def test_whatever_is_seen_its_orders_are_in_bounds(
    baseline: Baseline, seen: list[FleetObservation], every_s: int
) -> None:
    controller = baseline.controller(SITE)
    for place, each in enumerate(seen):
        orders = controller.decide(each, 1000.0 + every_s * place)
        if orders.replicas is not None:
            assert 1 <= orders.replicas <= 8
            assert isinstance(orders.replicas, int)
