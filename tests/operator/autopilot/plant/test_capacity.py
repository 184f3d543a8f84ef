from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline_operator.autopilot.plant.capacity import (
    Bound,
    Terms,
    alone_ttft_ms,
    attainable,
    capacity_rps,
    steady_state,
)
from paceline_operator.autopilot.plant.plant import Plant, build_plant
from paceline_operator.autopilot.plant.prior import prior_of
from paceline_operator.autopilot.plant.workload import Workload
from paceline_operator.autopilot.vocabulary.memory import Memory

CHAT = Workload(
    prompt_mean=1000, prompt_p50=700, prompt_p95=3000, prompt_cv2=1.0, output_mean=250,
    rows_p95=12, kv_p95=14000,
)  # fmt: skip
TERMS = Terms(budget=512, running_seqs=256, ttft_ms=500, itl_ms=50, margin=0.1)


def plant(workload: Workload = CHAT, profile: str = "llama-3-8b-a100") -> Plant:
    return build_plant(Memory(), prior_of(profile), workload)


CONVERSATIONS = Workload(
    prompt_mean=1155, prompt_p50=928, prompt_p95=3500, prompt_cv2=0.95, output_mean=211,
    rows_p95=12, kv_p95=14000,
)  # fmt: skip


def test_known_operating_points() -> None:
    """A discrete simulation of this accelerator under conversations held 4 requests/s at this
    budget within 500 and 50 ms, and was saturated near 7."""
    assert 3.0 < capacity_rps(plant(CONVERSATIONS), TERMS)[0] < 5.5
    saturated = capacity_rps(plant(CONVERSATIONS), replace(TERMS, ttft_ms=None))[0]
    assert 6.0 < saturated < 8.0


@pytest.mark.parametrize(
    ("terms", "limit"),
    [
        (replace(TERMS, ttft_ms=400), Bound.TTFT),
        (replace(TERMS, ttft_ms=None), Bound.PREFILL),
        (replace(TERMS, ttft_ms=None, running_seqs=4), Bound.SEQUENCES),
        (replace(TERMS, ttft_ms=None, kv_capacity_tokens=6000), Bound.KV),
    ],
)
def test_what_binds_is_named(terms: Terms, limit: Bound) -> None:
    assert capacity_rps(plant(), terms)[1] is limit


def test_a_faster_device_carries_more() -> None:
    slow = capacity_rps(plant(), TERMS)[0]
    fast = capacity_rps(plant(profile="llama-3-8b-h100"), TERMS)[0]
    assert fast > 2 * slow


def test_prefix_hits_save_work() -> None:
    cached = replace(CHAT, hit_rate=0.5)
    terms = replace(TERMS, ttft_ms=None)
    assert capacity_rps(plant(cached), terms)[0] > 1.4 * capacity_rps(plant(), terms)[0]


def test_a_prompt_alone_needs_its_steps() -> None:
    budget = 512
    steps = 3000 / budget
    at_least = steps * plant().full_ms(budget, 0.0)
    assert at_least < alone_ttft_ms(plant(), TERMS) < 1.4 * at_least + 20


@settings(max_examples=60, deadline=None)
@given(st.floats(0.1, 20), st.floats(1.1, 3))
def test_more_load_never_helps(rps: float, factor: float) -> None:
    less, more = (steady_state(plant(), TERMS, r) for r in (rps, factor * rps))
    assert more.rows >= less.rows - 1e-6
    assert more.busy >= less.busy - 1e-6
    assert more.ttft_ms >= less.ttft_ms - 1e-6


@settings(max_examples=40, deadline=None)
@given(st.integers(300, 3000), st.integers(300, 3000))
def test_a_looser_target_never_costs_capacity(one: int, other: int) -> None:
    low, high = sorted((one, other))
    strict = capacity_rps(plant(), replace(TERMS, ttft_ms=low))[0]
    loose = capacity_rps(plant(), replace(TERMS, ttft_ms=high))[0]
    assert loose >= strict - 1e-3


@pytest.mark.parametrize("ratio", [0.99, 1.01])
def test_what_an_idle_replica_holds_has_a_capacity_and_nothing_else(ratio: float) -> None:
    model = plant()
    terms = replace(TERMS, itl_ms=None, ttft_ms=alone_ttft_ms(model, TERMS) / ratio)
    found = attainable(model, terms)
    assert (found.ttft_ms is not None) is (ratio < 1)
    assert (capacity_rps(model, terms)[0] > 0.001) is (ratio < 1)
    assert capacity_rps(model, found)[0] > 0.001


def test_a_median_of_first_tokens_asks_for_less_than_their_tail() -> None:
    median = replace(TERMS, ttft_share=0.5)
    assert alone_ttft_ms(plant(), median) < alone_ttft_ms(plant(), TERMS)
    assert capacity_rps(plant(), median)[0] > capacity_rps(plant(), TERMS)[0]
