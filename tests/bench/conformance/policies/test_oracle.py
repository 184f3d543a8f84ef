"""Plans made with the load in hand, checked against the definition."""

from __future__ import annotations

from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.conformance.policies.oracle import (
    Binding,
    Oracle,
    Plan,
    by_law,
    offered,
    per_prompt_token,
    per_request,
    plan,
)
from bench.conformance.policies.site import ReplicaBounds
from paceline_operator.autopilot.vocabulary.fleet import Tunables
from paceline_operator.simulator.controller import NOTHING
from paceline_operator.simulator.fleet.faults import StepsSlower
from paceline_operator.simulator.law import StepLaw
from paceline_operator.simulator.request import Request
from tests.bench.conformance.policies.observed import fleet

BOUNDS = ReplicaBounds(least=1, most=20)
UNBOUND = Binding(cold_start_s=0.0, down_window_s=0.0)


def at(arrival_s: float, prompt: int = 100, answer: int = 10) -> Request:
    return Request(arrival_s, prompt, answer)


def test_work_falls_into_the_slot_of_its_arrival() -> None:
    load = [at(0.0), at(14.9), at(31.0)]
    assert offered(load, per_request(2.0), 15.0) == pytest.approx((1.0 / 15, 0.0, 0.5 / 15))
    assert offered([], per_request(2.0), 15.0) == ()


def test_work_of_a_request() -> None:
    assert per_prompt_token(5000.0)(at(0.0, prompt=999), 250) == pytest.approx(0.05)
    law = StepLaw(
        base_ms=2.0, per_prefill_token_ms=0.1, per_decode_row_ms=0.05, per_kv_token_ms=0.001
    )
    # A full step of 100 tokens takes 12 ms; a row of 55 resident tokens adds 0.105 ms.
    expected_s = 50 * 0.12e-3 + 10 * 0.105e-3
    assert by_law(law, 100)(at(0.0, prompt=50, answer=10), 50) == pytest.approx(expected_s)
    # Half of the prompt known: half of the steps, the same rows.
    assert by_law(law, 100)(at(0.0, prompt=50, answer=10), 25) == pytest.approx(
        expected_s - 25 * 0.12e-3
    )


def test_a_prefix_is_computed_once() -> None:
    """512 tokens to a block: 1024, then 1500 of which 1024 are known, then nothing in common."""
    load = [
        Request(0.0, 1024, 1, (1, 2)),
        Request(1.0, 1500, 1, (1, 2, 3)),
        Request(2.0, 600, 1, (9, 2)),
        Request(3.0, 1024, 1, (1, 2)),
    ]
    # The last token of a known prompt is computed again.
    expected = (1024 + 476 + 600 + 1) / 100.0 / 15.0
    assert offered(load, per_prompt_token(100.0), 15.0) == pytest.approx((expected,))


def test_slower_steps_make_more_work() -> None:
    faults = (StepsSlower(start_s=15.0, end_s=30.0, factor=1.5),)
    load = [at(0.0), at(15.0), at(30.0)]
    found = offered(load, per_request(1.0), 15.0, faults)
    assert found == pytest.approx((1 / 15, 1.5 / 15, 1 / 15))


def test_unbound_it_follows_the_work() -> None:
    found = plan((0.2, 2.5, 0.9, 0.9), 1.0, UNBOUND, BOUNDS)
    assert found == Plan((0.0, 15.0, 30.0), (1, 3, 1))


def test_bound_it_orders_early_and_gives_back_late() -> None:
    """3 are needed from 60 to 75 s: ordered at 30, given back 45 s after the need ends."""
    busy = (0.5, 0.5, 0.5, 0.5, 2.5, *[0.5] * 8)
    found = plan(busy, 1.0, Binding(cold_start_s=30.0, down_window_s=45.0), BOUNDS)
    assert found == Plan((0.0, 30.0, 120.0), (1, 3, 1))


def test_headroom_is_a_factor_on_the_work() -> None:
    assert plan((1.0,), 1.0, UNBOUND, BOUNDS).replicas == (1,)
    assert plan((1.0,), 1.1, UNBOUND, BOUNDS).replicas == (2,)
    assert plan((1.5,), 0.5, UNBOUND, BOUNDS).replicas == (1,)


def test_bounds_hold_and_an_empty_load_needs_the_least() -> None:
    bounds = ReplicaBounds(least=2, most=4)
    assert plan((0.0, 9.0), 1.0, UNBOUND, bounds).replicas == (2, 4)
    assert plan((), 1.0, UNBOUND, bounds).replicas == (2,)


@given(
    st.lists(st.floats(0, 12), min_size=1, max_size=60),
    st.integers(0, 20),
    st.integers(0, 20),
)
def test_every_slot_gets_what_the_definition_says(
    busy: list[float], ahead: int, behind: int
) -> None:
    binding = Binding(cold_start_s=15.0 * ahead, down_window_s=15.0 * behind)
    found = plan(busy, 1.0, binding, BOUNDS)
    needs = [min(20, max(1, ceil(share - 1e-9))) for share in busy]
    for slot in range(len(busy)):
        inside = needs[max(0, slot - behind) : slot + ahead + 1]
        assert found.at(15.0 * slot) == max(inside)


def test_it_speaks_when_the_plan_changes() -> None:
    knobs = Tunables(max_num_batched_tokens=512, max_num_running_seqs=64)
    oracle = Oracle(Plan((0.0, 30.0, 120.0), (1, 3, 1)), knobs)
    assert oracle.next_due_s == 1000.0
    seen = fleet(1, desired_tunables=None)
    first = oracle.decide(seen, 1000.0)
    assert (first.replicas, first.tunables) == (None, knobs)
    assert oracle.next_due_s == 1030.0
    assert oracle.decide(fleet(1), 1031.0).replicas == 3
    assert oracle.next_due_s == 1120.0
    assert oracle.decide(fleet(3), 1120.0).replicas == 1
    assert oracle.next_due_s == float("inf")
    assert oracle.decide(fleet(1), 1125.0) is NOTHING
