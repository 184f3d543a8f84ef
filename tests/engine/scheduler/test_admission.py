"""Seats and blocks between tiers: who gets in, who is pushed aside, and how often at most."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline_engine.request import CacheScope, Request, Tier
from paceline_engine.sampling import SamplingParams
from paceline_engine.scheduler.output import SchedulerOutput
from paceline_engine.scheduler.running import MAX_PREEMPTIONS
from tests.engine.scheduler.harness import Harness
from tests.support.engine_config import engine_config

LIVE, BATCH = Tier.INTERACTIVE, Tier.BATCH


def harness(**changes: object) -> Harness:
    return Harness(engine_config(**{"prefix_caching": False, "vocab_size": 50, **changes}))


def request(
    request_id: int, tier: Tier = LIVE, prompt: int = 20, max_tokens: int = 100, **more: object
) -> Request:
    return Request(
        request_id=request_id,
        prompt_token_ids=(request_id + 1,) * prompt,
        sampling=SamplingParams(max_tokens=max_tokens, ignore_eos=True),
        tier=tier,
        **more,  # type: ignore[arg-type]  # test data
    )


def lengths(step: SchedulerOutput) -> dict[int, int]:
    return {chunk.request_id: len(chunk.token_ids) for chunk in step.chunks}


def test_prefill_is_divided_by_weight_where_both_tiers_want_it() -> None:
    made = harness(
        max_num_batched_tokens=100, max_model_len=1024, num_kv_blocks=256, batch_weight=0.25
    )
    made.add(request(1, BATCH, prompt=400, max_tokens=1))
    made.add(request(2, LIVE, prompt=400, max_tokens=1))
    steps = [lengths(made.step()) for _ in range(4)]
    assert [sum(step.values()) for step in steps] == [96, 96, 96, 96]
    total = {each: sum(step.get(each, 0) for step in steps) for each in (1, 2)}
    assert total[2] / total[1] == pytest.approx(4, rel=0.5)
    assert all(set(step) == {1, 2} for step in steps[1:])


def test_what_one_tier_leaves_goes_to_the_other() -> None:
    made = harness(max_num_batched_tokens=96, max_model_len=1024, num_kv_blocks=256)
    made.add(request(1, BATCH, prompt=400))
    made.step()
    made.add(request(2, LIVE, prompt=10))
    assert lengths(made.step()) == {1: 86, 2: 10}


@pytest.mark.behaviour(
    "every running decode is in every step; prompts get what is left of the budget",
    report="vllm #8121, lmdeploy #1740: long prompts froze running streams",
)
def test_decodes_of_both_tiers_run_in_every_step() -> None:
    made = harness(max_num_batched_tokens=48, max_model_len=1024, num_kv_blocks=256)
    for request_id in range(4):
        made.add(request(request_id, BATCH if request_id % 2 else LIVE, prompt=2))
    made.step()
    made.add(request(9, prompt=800))
    for _ in range(10):
        step = made.step()
        assert (step.decode_rows, step.prefill_tokens) == (4, 44)


@pytest.mark.behaviour(
    "an interactive request that lacks a seat or memory goes through the same preemption "
    "decision and displaces batch requests",
    report="sglang #15249: a high-priority request stuck where the no-memory path never preempts",
)
@pytest.mark.parametrize(
    "scarce", [{"max_num_seqs": 3}, {"num_kv_blocks": 8, "max_model_len": 128}], ids=str
)
def test_interactive_displaces_batch_for_a_seat_or_for_blocks(scarce: dict[str, int]) -> None:
    made = harness(**scarce)
    for request_id in range(3):
        made.add(request(request_id, BATCH, max_tokens=12))
    made.step()
    made.add(request(9, LIVE, prompt=40, max_tokens=12))
    steps = [made.step() for _ in range(4)]
    assert steps[1].preempted == (2,)
    assert any(9 in lengths(step) for step in steps)
    while made.scheduler.has_work:
        made.step()
    made.scheduler.check_idle()
    assert set(made.run.ends) == {0, 1, 2, 9}


@pytest.mark.behaviour(
    "an interactive request for which there is no room displaces batch requests while batch "
    "prompts of any number of tenants are being computed",
    report="own risk: it waited until every batch prompt was computed",
)
@pytest.mark.parametrize("scarce", [{"max_num_seqs": 2}, {"num_kv_blocks": 64}], ids=str)
def test_interactive_displaces_batch_that_prefills(scarce: dict[str, int]) -> None:
    made = harness(
        max_num_batched_tokens=32, max_model_len=1024, **{"num_kv_blocks": 256, **scarce}
    )
    for request_id in (0, 1):
        scope = CacheScope(tenant=f"tenant {request_id}")
        made.add(request(request_id, BATCH, prompt=490, cache_scope=scope))
    made.step()
    made.step()
    for request_id in (2, 3):
        scope = CacheScope(tenant=f"tenant {request_id}")
        made.add(request(request_id, BATCH, prompt=490, cache_scope=scope))
    made.add(request(9, LIVE, prompt=40, max_tokens=5))
    steps = [made.step() for _ in range(4)]
    assert any(step.preempted for step in steps)
    assert any(9 in lengths(step) for step in steps)


def test_interactive_never_displaces_interactive() -> None:
    made = harness(max_num_seqs=1)
    made.add(request(0))
    made.step()
    made.add(request(1))
    assert all(not made.step().preempted for _ in range(5))


def test_batch_that_is_due_is_not_displaced() -> None:
    made = harness(max_num_seqs=1, batch_max_wait_s=0.0)
    made.add(request(0, BATCH, max_tokens=20))
    made.step()
    made.add(request(1))
    assert all(not made.step().preempted for _ in range(5))


def test_nobody_is_displaced_in_vain() -> None:
    made = harness(num_kv_blocks=16, max_model_len=256)
    made.add(request(0, LIVE, prompt=100))
    made.add(request(1, BATCH, prompt=20))
    made.step()
    made.add(request(2, LIVE, prompt=200))
    assert all(not made.step().preempted for _ in range(5))


@pytest.mark.behaviour(
    "an interactive request goes past a batch request that does not fit, and displaces others",
    report="own risk: with a batch request at the head of the queue nobody was displaced",
)
def test_interactive_displaces_batch_past_a_batch_head_that_does_not_fit() -> None:
    made = harness(num_kv_blocks=16, max_model_len=256, batch_weight=1.0)
    made.add(request(0, BATCH, prompt=100))
    made.step()
    made.add(request(1, LIVE, prompt=64))
    made.step()
    made.add(request(2, BATCH, prompt=200))
    made.step()
    made.scheduler.roster.queue.charge(LIVE, "", 10_000)  # it is the batch tier's turn
    made.add(request(3, LIVE, prompt=80, max_tokens=30))
    assert made.step().preempted == ()
    step = made.step()
    assert step.preempted == (0,)
    assert 3 in lengths(step)
    assert all(not made.step().preempted for _ in range(5))


@pytest.mark.behaviour(
    "memory for an interactive request is counted with what it finds in the prefix cache",
    report="own risk: a request whose prompt was cached displaced nobody and waited",
)
def test_interactive_displaces_for_what_it_lacks_beyond_its_hits() -> None:
    made = harness(num_kv_blocks=32, max_model_len=512, prefix_caching=True)
    shared = tuple(place % 40 + 1 for place in range(300))
    made.add(replace(request(0), prompt_token_ids=shared))
    made.step()
    for request_id in (1, 2):
        made.add(request(request_id, BATCH, prompt=70))
    made.step()
    made.add(replace(request(9, max_tokens=3), prompt_token_ids=(*shared[:288], *(45,) * 16)))
    made.step()
    step = made.step()
    assert step.preempted == (2,)
    assert lengths(step)[9] == 16


def test_nobody_is_displaced_for_blocks_that_others_hold_too() -> None:
    """Three choices of one prompt hold its blocks; without the fourth they stay held."""
    made = harness(num_kv_blocks=24, max_model_len=384)
    parent = request(0, BATCH, prompt=95, max_tokens=60)
    made.add(parent)
    for request_id in range(1, 4):
        made.add(replace(parent, request_id=request_id, parent_id=0))
    made.step()
    made.step()
    for sequence in made.scheduler.roster.running:
        sequence.is_guest = sequence.request_id == 3
    made.add(request(9, prompt=16 * 14, max_tokens=5))
    assert all(not made.step().preempted for _ in range(5))


def test_a_lowered_cap_displaces_nobody_before_it_is_reached() -> None:
    made = harness(max_num_seqs=8)
    for request_id in range(8):
        made.add(request(request_id, BATCH, prompt=4, max_tokens=10 + request_id))
    made.step()
    made.scheduler.limits.apply(max_num_running_seqs=4)
    made.add(request(9, max_tokens=3))
    displaced = {}
    while made.scheduler.has_work:
        running = made.scheduler.num_running
        displaced.update(dict.fromkeys(made.step().preempted, running))
    assert list(displaced.values()) == [4]


def test_who_got_in_by_its_share_is_not_displaced() -> None:
    """Else two tiers that both always wait would take turns in computing for nothing."""
    made = harness(max_num_seqs=2, max_model_len=256)
    for request_id in range(40):
        made.add(request(request_id, BATCH if request_id % 2 else LIVE, prompt=8, max_tokens=8))
    while made.scheduler.has_work:
        made.step()
    assert made.run.preemptions.total() == 0


def test_displacement_is_bounded_and_then_batch_keeps_its_seat() -> None:
    made = harness(max_num_seqs=1, max_model_len=512, num_kv_blocks=64)
    made.add(request(0, BATCH, max_tokens=100))
    for request_id in range(1, 9):
        for _ in range(5):
            made.step()
        made.add(request(request_id, LIVE, prompt=4, max_tokens=2))
    while made.scheduler.has_work:
        made.step()
    assert made.run.preemptions == {0: MAX_PREEMPTIONS}
    assert len(made.run.ends) == 9


@pytest.mark.behaviour(
    "a batch request too large for the room there is holds up no interactive one that is due",
    report="own risk: one large request past its maximum wait stopped all admission",
)
def test_a_batch_request_that_does_not_fit_holds_up_interactive_ones_for_a_bounded_time() -> None:
    made = harness(
        num_kv_blocks=16, max_model_len=256, batch_max_wait_s=5.0, interactive_max_wait_s=2.0
    )
    made.add(request(0, LIVE, prompt=120, max_tokens=100))
    made.step()
    made.add(request(1, BATCH, prompt=200))
    made.add(request(2, LIVE, prompt=10, max_tokens=2))
    assert 2 in lengths(made.step())
    made.now_s = 6.0  # the batch request is due, and its tier behind
    made.add(request(3, LIVE, prompt=10, max_tokens=2))
    assert 3 not in lengths(made.step())
    made.now_s = 8.1
    assert 3 in lengths(made.step())
    made.add(request(4, LIVE, prompt=10, max_tokens=2))
    made.now_s = 10.2  # twice the maximum: nobody passes any more
    assert 4 not in lengths(made.step())
    while 4 not in lengths(made.step()):
        assert made.scheduler.has_work
    assert made.scheduler.roster.queue.get(1) is None


@pytest.mark.behaviour(
    "with a lowered running cap nothing is ended and nobody gets in until enough have left",
    report="vllm #53130: once a limit was reached nothing was admitted again",
)
@pytest.mark.parametrize("tiers", [(LIVE, LIVE), (BATCH, BATCH), (LIVE, BATCH), (BATCH, LIVE)])
def test_the_running_cap_drains_down_in_both_tiers(tiers: tuple[Tier, Tier]) -> None:
    made = harness(max_num_seqs=4)
    for request_id in range(4):
        made.add(request(request_id, tiers[0], max_tokens=4 + request_id))
    made.step()
    made.scheduler.limits.apply(max_num_running_seqs=2)
    made.add(request(9, tiers[1], max_tokens=3))
    running = []
    while made.scheduler.has_work:
        made.step()
        running.append(made.scheduler.num_running)
    assert running == sorted(running, reverse=True) or tiers == (BATCH, LIVE)
    assert set(made.run.ends) == {0, 1, 2, 3, 9}
    assert bool(made.run.preemptions) == (
        tiers == (BATCH, LIVE)
    )  # interactive need not wait for it


def test_the_step_time_target_sizes_chunks_and_never_stops_them() -> None:
    made = harness(max_num_batched_tokens=512, max_model_len=4096, num_kv_blocks=512)
    made.add(request(0, prompt=4000))
    for _ in range(2):
        made.step()  # 1 ms and 0.1 ms a token
    made.scheduler.limits.apply(step_time_target_ms=11.0)
    sizes = [made.step().num_tokens for _ in range(15)]
    assert all(95 <= size <= 101 for size in sizes[5:])
    made.scheduler.limits.apply(step_time_target_ms=0.5)
    assert made.step().num_tokens == 16  # cannot be kept: one step of the ladder goes on
    made.scheduler.limits.apply(step_time_target_ms=0)
    assert made.step().num_tokens == 512


@pytest.mark.behaviour(
    "a long prompt of one tenant never is a wall for another's, however short steps must be",
    report="own risk: with a step-time target below what can be kept a prompt of 10 tokens waited "
    "for 1,000 steps",
)
@pytest.mark.parametrize("target_ms", [0.0, 0.5])
def test_tenants_share_the_prefill_of_a_step(target_ms: float) -> None:
    made = harness(max_num_batched_tokens=512, max_model_len=8192, num_kv_blocks=2048)
    made.scheduler.limits.apply(step_time_target_ms=target_ms)
    for request_id in range(4):
        made.add(request(request_id, prompt=4000, max_tokens=1, cache_scope=CacheScope(tenant="a")))
    for _ in range(3):
        made.step()
    made.add(request(9, prompt=10, max_tokens=2, cache_scope=CacheScope(tenant="b")))
    steps = [made.step() for _ in range(4)]
    assert sum(lengths(step).get(9, 0) for step in steps) >= 11  # prompt and a decode
    assert all(step.num_tokens >= (500 if not target_ms else 16) for step in steps)


@pytest.mark.behaviour(
    "prefill tokens of a step are divided by the tenants' weights; what one leaves others get",
    report="own risk: a tenant of weight 3 got half of each step's prefill beside one of weight 1",
)
@pytest.mark.parametrize("tier", Tier)
def test_tenants_share_the_prefill_of_a_step_by_weight(tier: Tier) -> None:
    made = harness(
        max_num_batched_tokens=512,
        max_model_len=8192,
        num_kv_blocks=2048,
        tenant_weights=(("b", 3.0), ("c", 4.0)),
    )
    for index, (tenant, prompt) in enumerate((("a", 4000), ("b", 4000), ("c", 300))):
        scope = CacheScope(tenant=tenant)
        made.add(request(index, prompt=prompt, max_tokens=1, tier=tier, cache_scope=scope))
        if not index:
            made.step()
    steps = [lengths(made.step()) for _ in range(4)]
    assert steps[0] == {0: 128, 1: 384}  # one head at a time comes in for its part
    assert steps[1] == {0: 64, 1: 192, 2: 256}
    assert steps[2] == {0: 117, 1: 351, 2: 44}
    assert steps[3] == {0: 128, 1: 384}


def test_prefill_of_both_tiers_goes_by_their_weights() -> None:
    made = harness(
        max_num_batched_tokens=500, max_model_len=8192, num_kv_blocks=2048, batch_weight=0.25
    )
    for index, tier in enumerate((Tier.INTERACTIVE, Tier.BATCH)):
        made.add(request(index, prompt=4000, max_tokens=1, tier=tier))
    for _ in range(5):
        step = lengths(made.step())
    assert step == {0: 397, 1: 99}


def test_the_target_never_holds_back_a_decode() -> None:
    made = harness(max_model_len=1024, num_kv_blocks=256)
    for request_id in range(8):
        made.add(request(request_id, prompt=4))
    made.step()
    made.scheduler.limits.apply(step_time_target_ms=0.1)
    made.add(request(9, prompt=300))
    step = made.step()
    assert (step.decode_rows, step.prefill_tokens) == (8, 16)
