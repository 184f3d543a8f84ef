from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2e.load import arrivals
from e2e.load.mix import parse_mix
from e2e.load.plan import Phase, Plan, PlanError, make_plan

MIX = parse_mix("chat:0.8:10-20:5-9,long:0.2:500-600:1-2")
STEP = arrivals.step(2.0, 3.0, 10.0, 20.0, 10.0)
SEEDS = st.integers(-(2**40), 2**40)


def plan(seed: int, **changes: Any) -> Plan:
    return make_plan(STEP, MIX, seed=seed, **{"max_requests": 1000, **changes})


@given(SEEDS)
def test_a_seed_decides_everything(seed: int) -> None:
    assert plan(seed) == plan(seed)
    assert plan(seed) != plan(seed + 1)


@given(SEEDS, st.booleans())
def test_requests_are_numbered_ordered_and_bounded(seed: int, evenly: bool) -> None:
    made = plan(seed, evenly=evenly)
    assert [r.number for r in made.requests] == list(range(len(made.requests)))
    offsets = [r.offset_s for r in made.requests]
    assert offsets == sorted(offsets)
    assert 0 <= offsets[0] <= offsets[-1] <= made.duration_s == 40.0
    for request in made.requests:
        low, high, most = (10, 20, 9) if request.kind == "chat" else (500, 600, 2)
        assert low <= request.prompt_tokens <= high
        assert 1 <= request.max_tokens <= most
        assert request.streamed


def test_even_plans_have_the_rate_exactly() -> None:
    made = plan(1, evenly=True)
    counts = [sum(r.phase == p.name for r in made.requests) for p in made.phases]
    assert counts == [20, 120, 20]
    assert made.phases == (
        Phase(name="before", from_s=0.0, to_s=10.0),
        Phase(name="step", from_s=10.0, to_s=30.0),
        Phase(name="after", from_s=30.0, to_s=40.0),
    )


def test_arrivals_do_not_depend_on_the_mix() -> None:
    other = make_plan(STEP, parse_mix("a:1:1:1"), seed=4, max_requests=1000)
    assert [r.offset_s for r in other.requests] == [r.offset_s for r in plan(4).requests]


@pytest.mark.parametrize(("share", "low", "high"), [(0.0, 0, 0), (0.5, 55, 110)])
def test_some_requests_are_not_streamed(share: float, low: int, high: int) -> None:
    made = plan(3, evenly=True, streamed_share=share)
    assert low <= sum(r.streamed for r in made.requests) <= high


def test_too_large_a_plan_is_refused() -> None:
    with pytest.raises(PlanError, match="about 160 requests, above 159"):
        plan(1, max_requests=159)


def test_a_lucky_draw_is_cut_at_the_bound() -> None:
    counts = [len(plan(seed, max_requests=160).requests) for seed in range(20)]
    assert max(counts) == 160
    assert min(counts) < 160


def test_an_empty_plan_is_refused() -> None:
    with pytest.raises(PlanError, match="no request"):
        make_plan(arrivals.steady(0.1, 1.0), MIX, seed=1, max_requests=10, evenly=True)
