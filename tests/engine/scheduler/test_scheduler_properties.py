"""Invariants of scheduling under any load, budget, pool, cache, abort and change of knobs."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from paceline_engine.config import EngineConfig
from paceline_engine.message import TokenLogprobs
from paceline_engine.request import CacheScope, FinishReason, Request, Tier
from paceline_engine.sampling import SamplingParams
from paceline_engine.scheduler.running import MAX_PREEMPTIONS
from tests.engine.scheduler.harness import Disturbance, Harness, drive, expected
from tests.engine.scheduler.paged_executor import draw as draw_token
from tests.support.engine_config import engine_config

VOCAB = 50
EOS = (0,)
MAX_REQUEST_TOKENS = 40
THOROUGH = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
QUICK = settings(THOROUGH, max_examples=20)
SHARED = tuple(range(1, 31))


@st.composite
def prompts(draw: st.DrawFn) -> tuple[int, ...]:
    """Prompts of which many begin alike."""
    head = SHARED[: draw(st.integers(0, 30))]
    tail = draw(st.lists(st.integers(0, VOCAB - 1), min_size=not head, max_size=38 - len(head)))
    return (*head, *tail)


@st.composite
def requests(draw: st.DrawFn) -> tuple[Request, ...]:
    made: list[Request] = []
    for index in range(draw(st.integers(1, 12))):
        request = Request(
            request_id=index,
            prompt_token_ids=draw(prompts()),
            sampling=SamplingParams(
                seed=draw(st.integers(0, 3)),
                max_tokens=draw(st.integers(1, 30)),
                ignore_eos=draw(st.booleans()),
                stop_token_ids=tuple(draw(st.lists(st.integers(0, VOCAB - 1), max_size=1))),
                logprobs=draw(st.none() | st.just(0)),
                prompt_logprobs=draw(st.none() | st.none() | st.just(0)),
            ),
            tier=draw(st.sampled_from(Tier)),
            cache_scope=CacheScope(tenant=draw(st.sampled_from(["", "other"]))),
            deadline_s=draw(st.none() | st.floats(0, 1)),
        )
        if made and draw(st.booleans()):
            request = sibling(request, draw(st.sampled_from(made)))
        made.append(request)
    return tuple(made)


def sibling(request: Request, parent: Request) -> Request:
    """Another choice of the parent's prompt."""
    return replace(
        request,
        prompt_token_ids=parent.prompt_token_ids,
        cache_scope=parent.cache_scope,
        tier=parent.tier,
        parent_id=parent.request_id,
    )


@st.composite
def configs(draw: st.DrawFn) -> EngineConfig:
    """Pools from just one longest request to plenty; budgets from the floor up."""
    block_size = draw(st.sampled_from([1, 4, 16]))
    smallest = -(-MAX_REQUEST_TOKENS // block_size)
    return engine_config(
        max_model_len=MAX_REQUEST_TOKENS,
        max_num_batched_tokens=draw(st.integers(2, 200)),
        max_num_seqs=draw(st.integers(1, 10)),
        initial_batched_tokens=draw(st.integers(1, 200)),
        block_size=block_size,
        num_kv_blocks=draw(st.integers(smallest, 3 * smallest)),
        vocab_size=VOCAB,
        eos_token_ids=EOS,
        prefix_caching=draw(st.booleans()),
        cache_retention_s=draw(st.none() | st.just(0.05)),
        batch_weight=draw(st.sampled_from([0.05, 0.25, 1.0])),
        interactive_max_wait_s=draw(st.sampled_from([0.0, 0.05, 10.0])),
        batch_max_wait_s=draw(st.sampled_from([0.0, 0.2, 100.0])),
        tenant_weights=draw(st.sampled_from([(), (("other", 3.0),)])),
    )


def arrivals() -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, 3), min_size=12, max_size=12)


def disturbances() -> st.SearchStrategy[list[Disturbance]]:
    some = st.builds(
        Disturbance,
        aborts=st.lists(st.integers(0, 13), max_size=1).map(tuple),
        budget=st.none() | st.integers(0, 220),
        running=st.none() | st.integers(0, 12),
        target_ms=st.none() | st.sampled_from([0.0, 1.0, 3.0, 50.0]),
        purge=st.booleans(),
    )
    return st.lists(st.just(Disturbance()) | some, max_size=40)


@pytest.mark.behaviour(
    "outputs and log-probabilities do not depend on batching, chunking, preemption, cache hits, "
    "forks or tiers",
    report="FastDeploy #3071, llama.cpp #28368: tokens lost by preemption or changed by a hit",
)
@THOROUGH
@given(config=configs(), load=requests(), gaps=arrivals())
def test_outputs_depend_on_the_request_alone(
    config: EngineConfig, load: tuple[Request, ...], gaps: list[int]
) -> None:
    run = drive(config, load, gaps)
    event(f"preempted: {bool(run.preemptions)}")
    event(f"batched: {run.most_in_step > 1}")
    event(f"forked: {bool(run.copies)}")
    for request in load:
        whole = expected(request, config)
        assert run.tokens[request.request_id] == whole
        prompt = len(request.prompt_token_ids)
        text = (*request.prompt_token_ids, *whole)
        if request.sampling.logprobs is not None:
            wanted = [logprob(text, place) for place in range(prompt, len(text))]
            assert run.logprobs[request.request_id] == wanted
        else:
            assert not run.logprobs[request.request_id]
        if request.sampling.prompt_logprobs is not None:
            told = run.prompt_logprobs.get(request.request_id, ())
            assert list(told) == [logprob(text, place) for place in range(1, prompt)]
    assert set(run.ends) == set(run.tokens)
    assert set(run.ends.values()) <= {FinishReason.STOP, FinishReason.LENGTH}


def logprob(text: tuple[int, ...], place: int) -> TokenLogprobs:
    """What the executor says of a position: which one it is, and what it read before it."""
    return TokenLogprobs(place, -float(draw_token(text[:place], 0, VOCAB)), rank=1)


@pytest.mark.behaviour(
    "an abort at any moment, of any request, leaks no block and harms no other request",
    report="sglang #6888, llama.cpp #24496, ik_llama.cpp #1929: leaks and wrong cancellations",
)
@THOROUGH
@given(config=configs(), load=requests(), gaps=arrivals(), script=disturbances())
def test_aborts_and_live_knobs_harm_nobody_else(
    config: EngineConfig,
    load: tuple[Request, ...],
    gaps: list[int],
    script: list[Disturbance],
) -> None:
    run = drive(config, load, gaps, script)
    assert set(run.ends) == {request.request_id for request in load}
    for request in load:
        whole, got = expected(request, config), run.tokens[request.request_id]
        if run.ends[request.request_id] is FinishReason.ABORT:
            assert got == whole[: len(got)]
        else:
            assert got == whole


@QUICK
@given(config=configs(), load=requests(), gaps=arrivals(), cut=st.integers(0, 60))
def test_everything_aborted_at_once_leaves_nothing(
    config: EngineConfig, load: tuple[Request, ...], gaps: list[int], cut: int
) -> None:
    everyone = tuple(request.request_id for request in load)
    script = [Disturbance()] * (cut + sum(gaps)) + [Disturbance(aborts=everyone)]
    run = drive(config, load, gaps, script)
    assert set(run.ends) == set(everyone)


def small_pool(**changes: object) -> EngineConfig:
    """Five longest requests would need ten times as many blocks."""
    return engine_config(
        **{
            "max_model_len": MAX_REQUEST_TOKENS,
            "block_size": 4,
            "num_kv_blocks": 20,
            "vocab_size": VOCAB,
            "eos_token_ids": EOS,
            **changes,
        }
    )


def crowd(count: int, *, tiers: tuple[Tier, ...] = (Tier.INTERACTIVE,)) -> tuple[Request, ...]:
    return tuple(
        Request(
            request_id=index,
            prompt_token_ids=(index % VOCAB + 1,) * 4,
            sampling=SamplingParams(seed=index, max_tokens=30, ignore_eos=True),
            tier=tiers[index % len(tiers)],
        )
        for index in range(count)
    )


@pytest.mark.behaviour(
    "a full pool preempts, recomputes prompt and output, and loses no token",
    report="FastDeploy #3071: after preemption only the prompt was computed again",
)
def test_a_full_pool_preempts_often_and_loses_no_token() -> None:
    """The properties above mean little unless preemption happens: here it must."""
    config, load = small_pool(), crowd(10)
    run = drive(config, load)
    assert run.preemptions.total() >= 5
    assert run.tokens == {request.request_id: expected(request, config) for request in load}


@pytest.mark.behaviour(
    "no request is preempted more than four times, however scarce memory is",
    report="preemption without bound: a request that never gets to its end",
)
@QUICK
@given(
    blocks=st.integers(10, 24),
    count=st.integers(2, 24),
    gaps=st.lists(st.integers(0, 12), min_size=24, max_size=24),
    seqs=st.integers(2, 16),
)
def test_preemptions_are_bounded(blocks: int, count: int, gaps: list[int], seqs: int) -> None:
    config = small_pool(num_kv_blocks=blocks, max_num_seqs=seqs)
    load = crowd(count, tiers=(Tier.BATCH, Tier.BATCH, Tier.INTERACTIVE))
    run = drive(config, load, gaps)  # checks the bound
    event(f"most: {max(run.preemptions.values(), default=0)}")
    assert len(run.ends) == count


def test_the_bound_is_reached() -> None:
    """Else the property above would say nothing."""
    config = small_pool(num_kv_blocks=16, max_num_seqs=12)
    load = crowd(24, tiers=(Tier.BATCH, Tier.BATCH, Tier.INTERACTIVE))
    scattered = (random.Random(seed).choices(range(13), k=24) for seed in range(40))
    most = (max(drive(config, load, gaps).preemptions.values()) for gaps in scattered)
    assert MAX_PREEMPTIONS in most


def test_an_abort_of_every_request_at_every_step() -> None:
    """Exhaustive where hypothesis samples: each request, at each moment of one busy load."""
    config, load = small_pool(num_kv_blocks=14), crowd(5)
    whole = {request.request_id: expected(request, config) for request in load}
    for cut in range(0, 60, 6):
        for aborted in range(len(load)):
            script = [Disturbance()] * cut + [Disturbance(aborts=(aborted,))]
            run = drive(config, load, script=script)
            for request_id, tokens in run.tokens.items():
                if run.ends[request_id] is not FinishReason.ABORT:
                    assert tokens == whole[request_id]


@pytest.mark.behaviour(
    "a block is a hit only after the step that filled it",
    report="vllm #29387: two prompts that begin alike in one step, the second on unfilled blocks",
)
def test_two_equal_prompts_in_one_step_share_nothing_before_it_is_computed() -> None:
    config = small_pool(num_kv_blocks=64)
    harness = Harness(config)
    for request_id in range(2):
        harness.add(replace(crowd(1)[0], request_id=request_id, prompt_token_ids=SHARED))
    step = harness.step()
    assert [chunk.start for chunk in step.chunks] == [0, 0]


@pytest.mark.behaviour(
    "a prompt is looked up, pinned and counted in the step that schedules it: budget and start "
    "follow from that look-up, and at least the last token is computed",
    report="nano-vllm #210, vllm #17305, #11186: stale hits, wrong counts, nothing left to run",
)
def test_hits_are_counted_in_the_step_that_schedules() -> None:
    config = small_pool(num_kv_blocks=10, max_num_batched_tokens=16, max_num_seqs=1)
    harness = Harness(config)
    first = replace(
        crowd(1)[0], prompt_token_ids=SHARED[:28], sampling=SamplingParams(max_tokens=1)
    )
    for request_id in range(3):
        harness.add(replace(first, request_id=request_id))
    starts = [[(c.request_id, c.start, c.end) for c in harness.step().chunks] for _ in range(4)]
    assert starts == [[(0, 0, 16)], [(0, 16, 28)], [(1, 24, 28)], [(2, 24, 28)]]
    harness.add(replace(crowd(4)[3], request_id=3, prompt_token_ids=(9,) * 36))  # evicts all
    while harness.scheduler.has_work:
        harness.step()
    harness.add(replace(first, request_id=4))
    assert harness.step().chunks[0].start == 0
