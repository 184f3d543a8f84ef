"""What holds for every family, and what each one is for."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline_operator.simulator.loads.conversations import Conversations
from paceline_operator.simulator.loads.lengths import LogNormal, LogNormalLengths
from paceline_operator.simulator.loads.load import Load
from paceline_operator.simulator.loads.popularity import Popularity
from paceline_operator.simulator.loads.rates import (
    Burst,
    Constant,
    Diurnal,
    OnOff,
    Piecewise,
    Ramp,
    Segment,
    Step,
)
from paceline_operator.simulator.loads.shared_prefixes import SharedPrefixes
from paceline_operator.simulator.loads.single_turns import SingleTurns, Stage
from paceline_operator.simulator.loads.together import Together
from paceline_operator.simulator.request import Request

SHORT = LogNormalLengths(
    prompt=LogNormal(mean=300, sigma=0.8, most=2000), output=LogNormal(mean=60, sigma=0.5, most=400)
)
LONG = LogNormalLengths(
    prompt=LogNormal(mean=6000, sigma=0.2, least=4000, most=8192),
    output=LogNormal(mean=60, sigma=0.5, most=400),
)
STEADY = Constant(rps=2.0, duration_s=600.0)
CHAT = (Stage(0.0, SHORT),)
FAMILIES: dict[str, Load] = {
    "constant": SingleTurns(rates=STEADY, stages=CHAT),
    "clustered": SingleTurns(rates=STEADY, stages=CHAT, dispersion=3.0),
    "step": SingleTurns(rates=Step(rps=1.0, before_s=200, step_s=200, after_s=200), stages=CHAT),
    "ramp": SingleTurns(
        rates=Ramp(rps=1.0, before_s=100, ramp_s=150, top_s=100, after_s=100), stages=CHAT
    ),
    "burst": SingleTurns(rates=Burst(rps=1.0, every_s=200, burst_s=20, bursts=3), stages=CHAT),
    "diurnal": SingleTurns(rates=Diurnal(mean_rps=2.0, day_s=600), stages=CHAT),
    "on-off": SingleTurns(rates=OnOff(rps=2.0, on_s=200), stages=CHAT),
    "long-prompts": SingleTurns(rates=STEADY, stages=(Stage(0.0, SHORT), Stage(300.0, LONG))),
    "prefixes": SharedPrefixes(
        rates=STEADY, own=SHORT, prefixes=Popularity(4), prefix_blocks=3, shared_until_s=300.0
    ),
    "conversations": Conversations(
        rates=STEADY, message=SHORT, system_prompts=Popularity(3), system_blocks=2, turns=5.0
    ),
    "backlog": Together(
        (
            SingleTurns(rates=STEADY, stages=CHAT),
            SingleTurns(
                rates=Piecewise(parts=(Segment(100, 0, 0), Segment(10, 20, 20))),
                stages=CHAT,
                tier="batch",
            ),
        )
    ),
}
EXPECTED = {
    "constant": 1200, "clustered": 1200, "step": 1000, "ramp": 1350, "burst": 780,
    "diurnal": 1200, "on-off": 800, "long-prompts": 1200, "prefixes": 1200, "backlog": 1400,
}  # fmt: skip


def drawn(name: str, seed: int = 1) -> list[Request]:
    return list(FAMILIES[name].requests(Random(seed)))


@pytest.mark.parametrize("name", FAMILIES)
def test_requests_are_in_order_and_in_time(name: str) -> None:
    requests = drawn(name)
    assert all(a.arrival_s <= b.arrival_s for a, b in pairwise(requests))
    assert requests[0].arrival_s >= 0
    assert requests[-1].arrival_s <= FAMILIES[name].duration_s
    assert all(r.prompt_tokens >= 1 and r.output_tokens >= 1 for r in requests)


@pytest.mark.parametrize("name", FAMILIES)
def test_one_seed_is_one_load(name: str) -> None:
    assert drawn(name, 5) == drawn(name, 5)
    assert drawn(name, 5) != drawn(name, 6)


@pytest.mark.parametrize("name", EXPECTED)
def test_as_many_come_as_the_rates_say(name: str) -> None:
    """Within 4.5 standard deviations of a Poisson count, for a clustered one of its own."""
    spread = (3.0 if name == "clustered" else 1.0) * EXPECTED[name]
    noise = 0.02 * EXPECTED[name] if name == "diurnal" else 0.0
    assert len(drawn(name)) == pytest.approx(EXPECTED[name], abs=4.5 * spread**0.5 + noise)


def test_a_step_is_three_times_as_much() -> None:
    at_s = [r.arrival_s for r in drawn("step")]
    before, during, after = (sum(lo <= t < lo + 200 for t in at_s) for lo in (0, 200, 400))
    assert during > 2 * max(before, after)


def test_nothing_comes_in_a_pause() -> None:
    assert not [r for r in drawn("on-off") if 200 < r.arrival_s < 1100]


def test_tokens_rise_without_requests() -> None:
    requests = drawn("long-prompts")
    early = [r for r in requests if r.arrival_s < 300]
    late = [r for r in requests if r.arrival_s >= 300]
    assert len(late) == pytest.approx(len(early), rel=0.25)
    assert max(r.prompt_tokens for r in early) <= 2000
    assert min(r.prompt_tokens for r in late) >= 4000


def test_prefixes_stop_being_shared_and_keep_their_length() -> None:
    requests = drawn("prefixes")
    shared = [r for r in requests if r.arrival_s < 300]
    alone = [r for r in requests if r.arrival_s >= 300]
    assert {r.prefix_blocks for r in shared} == {(0, 1, 2), (3, 4, 5), (6, 7, 8), (9, 10, 11)}
    assert {r.prefix_blocks for r in alone} == {()}
    means = [fmean(r.prompt_tokens for r in part) for part in (shared, alone)]
    assert means == pytest.approx([1536 + 300] * 2, rel=0.05)


def test_parts_keep_their_tier_and_share_nothing() -> None:
    requests = drawn("backlog")
    batch = [r.arrival_s for r in requests if r.tier == "batch"]
    assert len(batch) == pytest.approx(200, abs=64)
    assert 100 <= min(batch) <= max(batch) <= 110
    twice = Together((FAMILIES["prefixes"], FAMILIES["prefixes"])).requests(Random(1))
    assert len({r.prefix_blocks for r in twice}) == 2 * 4 + 1


class TestConversations:
    @settings(max_examples=20)
    @given(st.integers(0, 2**32), st.integers(0, 2), st.floats(1.0, 8.0))
    def test_each_turn_extends_the_one_before(
        self, seed: int, system_blocks: int, turns: float
    ) -> None:
        load = Conversations(
            rates=Constant(rps=1.0, duration_s=200.0), message=SHORT,
            system_prompts=Popularity(2), system_blocks=system_blocks, turns=turns,
            lead_s=0.0,
        )  # fmt: skip
        latest: dict[int, Request] = {}
        for request in load.requests(Random(seed)):
            ids, tokens = request.prefix_blocks, request.prompt_tokens
            assert len(ids) == -(-tokens // 512)
            own = ids[system_blocks]
            before = latest.get(own)
            if before:
                assert ids[: len(before.prefix_blocks)] == before.prefix_blocks
                assert tokens > before.prompt_tokens + before.output_tokens
                assert request.arrival_s >= before.arrival_s + 0.05 * before.output_tokens
            latest[own] = request

    def test_only_system_prompts_are_shared(self) -> None:
        load = FAMILIES["conversations"]
        holders: dict[int, set[int]] = {}
        for request in load.requests(Random(1)):
            for block in request.prefix_blocks:
                holders.setdefault(block, set()).add(request.prefix_blocks[2])
        assert {block for block, found in holders.items() if len(found) > 1} <= set(range(6))
        assert max(len(found) for found in holders.values()) > 20

    def test_the_rate_holds_from_the_beginning(self) -> None:
        """Openings are Poisson, turns geometric: the count's variance is 9 x its mean."""
        load = Conversations(
            rates=Constant(rps=4.0, duration_s=1500.0), message=SHORT,
            system_prompts=Popularity(2), system_blocks=1, turns=5.0,
            most_tokens=10**6,
        )  # fmt: skip
        at_s = [r.arrival_s for r in load.requests(Random(1))]
        halves = [sum(lo <= t < lo + 750 for t in at_s) for lo in (0, 750)]
        assert halves == pytest.approx([3000, 3000], abs=4 * (9 * 3000) ** 0.5)

    def test_a_conversation_ends_before_it_is_too_long(self) -> None:
        load = Conversations(
            rates=Constant(rps=2.0, duration_s=900.0), message=SHORT,
            system_prompts=Popularity(1), system_blocks=1, turns=50.0,
            most_tokens=4096,
        )  # fmt: skip
        tokens = [r.prompt_tokens + r.output_tokens for r in load.requests(Random(1))]
        assert 3500 < max(tokens) <= 4096
