"""Tenants that take turns where a step is too short for all of them."""

from __future__ import annotations

from collections import Counter
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline_engine.request import CacheScope, Request
from paceline_engine.sampling import SamplingParams
from paceline_engine.scheduler.rotation import LEAST_PART, PATIENCE, Rotation
from paceline_engine.scheduler.share import Share, divide
from tests.engine.scheduler.harness import Harness
from tests.support.engine_config import engine_config


class Turns:
    """Tenants that always want any number of tokens, over steps of as many."""

    def __init__(self, weights: dict[str, float]) -> None:
        self.shares = {tenant: Share(weight) for tenant, weight in weights.items()}
        self.served: Counter[str] = Counter()
        self._rotation = Rotation()

    def step(self, tokens: int, first: str | None = None) -> dict[str, int]:
        self._rotation.begin(self.shares)
        wanted = dict.fromkeys(self.shares, inf)
        parts = self._rotation.divide(tokens, wanted, self.shares, first)
        for tenant, part in parts.items():
            self.shares[tenant].charge(part)
            self._rotation.note(tenant)
        self.served.update(parts)
        return parts


def tenants(count: int, weight: float = 1.0) -> dict[str, float]:
    return {f"tenant {index:03}": weight for index in range(count)}


@settings(deadline=None)
@given(count=st.integers(1, 8), more=st.integers(0, 100), weight=st.floats(0.1, 10))
def test_where_there_is_room_for_all_nobody_is_left_out(
    count: int, more: int, weight: float
) -> None:
    turns = Turns({**tenants(count), "b": weight})
    tokens = (count + 1) * LEAST_PART + more
    expected = divide(tokens, dict.fromkeys(turns.shares, inf), turns.shares)
    assert turns.step(tokens) == expected


@settings(deadline=None, max_examples=30)
@given(count=st.integers(2, 300), tokens=st.integers(1, 2048))
def test_parts_are_worth_a_chunk_and_no_more_in_all_than_there_are(count: int, tokens: int) -> None:
    turns = Turns(tenants(count))
    for _ in range(5):
        parts = turns.step(tokens)
        assert 0 < sum(parts.values()) <= tokens
        assert min(parts.values()) >= min(tokens, LEAST_PART)


@pytest.mark.parametrize("tokens", [16, 40, 100, 333])
def test_over_steps_each_gets_its_weights_share(tokens: int) -> None:
    turns = Turns({**tenants(30), "heavy": 3.0, "light": 0.5})
    for _ in range(1500):
        turns.step(tokens)
    total = turns.served.total()
    weights = sum(share.weight for share in turns.shares.values())
    for tenant, share in turns.shares.items():
        assert turns.served[tenant] / total == pytest.approx(share.weight / weights, rel=0.1)


@settings(deadline=None, max_examples=15)
@given(poor=st.integers(1, 40), tokens=st.integers(LEAST_PART, 400))
def test_nobody_is_left_out_for_ever_and_the_weights_hold_but_for_an_eighth(
    poor: int, tokens: int
) -> None:
    turns = Turns({**tenants(poor, weight=1e-6), **{f"rich {each}": 1.0 for each in range(40)}})
    for _ in range(20):
        turns.step(tokens)
    turns.served.clear()
    rounds = 3
    steps = -(-PATIENCE * LEAST_PART * len(turns.shares) // tokens) + poor + 1
    for _ in range(rounds * steps):
        turns.step(tokens)
    assert min(turns.served[tenant] for tenant in tenants(poor)) > 0
    of_poor = sum(turns.served[tenant] for tenant in tenants(poor))
    if tokens < LEAST_PART * 41:
        assert of_poor / turns.served.total() < 0.15


def test_whose_turn_it_is_gets_a_part_whatever_it_was_served() -> None:
    turns = Turns(tenants(40))
    turns.shares["tenant 039"].charge(1e9)
    assert "tenant 039" in turns.step(64, first="tenant 039")
    assert "tenant 039" not in turns.step(64)


@pytest.mark.behaviour(
    "prompts of more tenants than a step has chunks for take turns in chunks of 16 tokens, and a "
    "short one that comes in is computed at once",
    report="own risk: 256 tenants got 2 to 8 tokens a step each, and that cost 65,000 tests",
)
def test_prompts_of_many_tenants_take_turns() -> None:
    config = engine_config(
        max_num_batched_tokens=128,
        max_num_seqs=64,
        max_model_len=512,
        num_kv_blocks=2048,
        prefix_caching=False,
    )
    made = Harness(config)

    def add(request_id: int, prompt: int) -> None:
        request = Request(
            request_id=request_id,
            prompt_token_ids=(1 + request_id % 40,) * prompt,
            sampling=SamplingParams(seed=request_id, max_tokens=1),
            cache_scope=CacheScope(tenant=f"tenant {request_id}"),
        )
        made.add(request)

    for request_id in range(40):
        add(request_id, 400)
    for _ in range(45):
        made.step()
    assert made.scheduler.num_running == 40
    for _ in range(20):
        step = made.step()
        assert step.num_tokens == 128
        assert [len(chunk.token_ids) for chunk in step.chunks] == [LEAST_PART] * 8
    add(99, 10)
    assert 99 in made.step().started
    made.step()
    assert 99 in made.run.ends
    while made.scheduler.has_work:
        made.step()
    assert len(made.run.ends) == 41
