"""Choices of one prompt: they wait beside the first one and share what it computed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline_engine.request import CacheScope, FinishReason, Request, Tier
from paceline_engine.sampling import SamplingParams
from tests.engine.scheduler.harness import Disturbance, Harness, expected
from tests.support.engine_config import engine_config

PROMPT = tuple(range(1, 41))


def harness(**changes: object) -> Harness:
    return Harness(engine_config(**{"vocab_size": 50, "prefix_caching": False, **changes}))


def parent(**sampling: object) -> Request:
    settings = {"seed": 1, "max_tokens": 8, "ignore_eos": True, **sampling}
    params = SamplingParams(**settings)  # type: ignore[arg-type]  # test data
    return Request(request_id=0, prompt_token_ids=PROMPT, sampling=params)


def child(request_id: int, **changes: object) -> Request:
    seeded = replace(parent().sampling, seed=request_id + 10)
    made = replace(parent(), request_id=request_id, parent_id=0, sampling=seeded)
    return replace(made, **changes)  # type: ignore[arg-type]  # test data


def finish(made: Harness, *requests: Request) -> None:
    while made.scheduler.has_work:
        made.step()
    made.scheduler.check_idle()
    for request in requests:
        assert made.run.tokens[request.request_id] == expected(request, made.config)


@pytest.mark.behaviour(
    "choices of one prompt compute it once; each draws from its own seed to its own end",
    report="vllm #10852: n > 1 gave equal texts, other choices fell silent with the first",
)
def test_children_compute_the_last_prompt_token_only() -> None:
    made = harness()
    family = [parent(), child(1), child(2)]
    for request in family:
        made.add(request)
    assert (made.scheduler.num_waiting, made.scheduler.waiting_tokens) == (3, 42)
    made.step()
    step = made.step()
    assert [(c.request_id, c.start, c.end) for c in step.chunks] == [
        (0, 40, 41),
        (1, 39, 40),
        (2, 39, 40),
    ]
    assert len(step.copies) == 2
    tables = [tuple(chunk.block_ids) for chunk in step.chunks]
    assert {table[:2] for table in tables} == {tables[0][:2]}
    finish(made, *family)


def test_a_long_prompt_is_waited_for() -> None:
    made = harness(max_num_batched_tokens=16)
    for request in (parent(), child(1)):
        made.add(request)
    for _ in range(3):
        assert [chunk.request_id for chunk in made.step().chunks] == [0]
        assert (made.scheduler.num_running, made.scheduler.num_waiting) == (1, 1)
    finish(made, parent(), child(1))
    assert made.run.copies == 1


@pytest.mark.parametrize("steps", [0, 1, 2], ids=["queued", "half computed", "computed"])
def test_a_child_outlives_its_parent(steps: int) -> None:
    made = harness(max_num_batched_tokens=32)
    for request in (parent(), child(1)):
        made.add(request)
    for _ in range(steps):
        made.step()
    made.disturb(Disturbance(aborts=(0,)))
    finish(made, child(1))


@pytest.mark.behaviour(
    "each choice is cancelled by its own id, waiting or running, and no other one is",
    report="ik_llama.cpp #1929: cancelling a queued request stopped another one",
)
@pytest.mark.parametrize("steps", [0, 1, 2, 3])
def test_a_child_is_aborted_alone(steps: int) -> None:
    made = harness(max_num_batched_tokens=32)
    family = [parent(), child(1), child(2)]
    for request in family:
        made.add(request)
    for _ in range(steps):
        made.step()
    made.disturb(Disturbance(aborts=(1,)))
    finish(made, parent(), child(2))
    assert made.run.ends[1] is FinishReason.ABORT


def test_a_parent_that_ends_with_its_first_token_leaves_the_children_to_themselves() -> None:
    made = harness()
    short = parent(max_tokens=1)
    for request in (short, child(1)):
        made.add(request)
    finish(made, short, child(1))
    assert made.run.copies == 0


def test_with_a_prefix_cache_they_then_find_its_blocks() -> None:
    made = harness(prefix_caching=True)
    for request in (parent(max_tokens=1), child(1)):
        made.add(request)
    made.step()
    assert [(c.request_id, c.start) for c in made.step().chunks] == [(1, 32)]
    finish(made, child(1))


def test_a_parent_that_fails_does_not_take_its_children_along() -> None:
    made = harness()
    for request in (parent(), child(1)):
        made.add(request)
    step = made.scheduler.schedule(0.0)
    result = replace(made.executor.execute(step), sampled=(), failed=((0, "broken"),))
    (output,) = made.scheduler.update(result, 0.0)
    assert output.finish_reason is FinishReason.ERROR
    next_step = made.scheduler.schedule(0.0)
    assert [(c.request_id, c.start) for c in next_step.chunks] == [(1, 0)]
    made.scheduler.update(made.executor.execute(next_step), 0.0)
    assert made.scheduler.num_running == 1


@pytest.mark.parametrize(
    "other",
    [
        {"prompt_token_ids": (*PROMPT[:-1], 49)},
        {"cache_scope": CacheScope(tenant="other")},
        {"sampling": SamplingParams(seed=3, max_tokens=4, prompt_logprobs=0)},
    ],
    ids=["prompt", "scope", "prompt logprobs"],
)
def test_who_may_not_share_computes_its_own(other: dict[str, object]) -> None:
    made = harness()
    stranger = child(1, **other)
    for request in (parent(), stranger):
        made.add(request)
    finish(made, parent(), stranger)
    assert made.run.copies == 0


def test_a_child_without_a_known_parent_is_like_any_other() -> None:
    made = harness()
    made.add(child(1))
    finish(made, child(1))


def test_a_child_of_a_child() -> None:
    made = harness(max_num_batched_tokens=16)
    family = [parent(), child(1), child(2, parent_id=1)]
    for request in family:
        made.add(request)
    finish(made, *family)
    assert made.run.copies == 2


def test_children_count_in_their_tier() -> None:
    made = harness()
    for request in (parent(), child(1), child(2)):
        made.add(replace(request, tier=Tier.BATCH))
    roster = made.scheduler.roster
    assert (roster.num_waiting(Tier.BATCH), roster.num_waiting(Tier.INTERACTIVE)) == (3, 0)
    assert roster.waiting_tokens(Tier.BATCH) == 42
    finish(made)
    assert roster.num_waiting(Tier.BATCH) == 0


def test_a_full_pool_preempts_children_like_others() -> None:
    made = harness(num_kv_blocks=8, max_model_len=128)
    family = [
        replace(request, sampling=replace(request.sampling, max_tokens=60))
        for request in (parent(), child(1), child(2), child(3))
    ]
    for request in family:
        made.add(request)
    finish(made, *family)
    assert made.run.preemptions.total() > 0


@pytest.mark.behaviour(
    "choices that are still queued when the first one ends wait for the next one's prompt",
    report="own risk: they counted as one token each and computed the prompt each for itself",
)
@pytest.mark.parametrize("aborted", [False, True])
def test_queued_children_of_a_parent_that_is_gone_compute_the_prompt_once(aborted: bool) -> None:
    made = harness(max_num_seqs=8, initial_running_seqs=1)
    family = [parent(max_tokens=2), *(child(request_id) for request_id in range(1, 5))]
    for request in family:
        made.add(request)
    made.step()
    assert made.scheduler.waiting_tokens == 4
    if aborted:
        made.disturb(Disturbance(aborts=(0,)))
    else:
        made.step()
    assert made.scheduler.waiting_tokens == len(PROMPT) + 3
    made.scheduler.limits.apply(max_num_running_seqs=8)
    starts = [[(c.request_id, c.start) for c in made.step().chunks] for _ in range(2)]
    assert starts == [[(1, 0)], [(1, 40), (2, 39), (3, 39), (4, 39)]]
    finish(made, *family[1:])


class Incomparable(tuple[int, ...]):
    """A prompt that nobody may look at token by token."""

    __slots__ = ()
    __hash__ = tuple.__hash__

    def __eq__(self, other: object) -> bool:
        raise AssertionError("a prompt was compared with itself")


@pytest.mark.behaviour(
    "a call of many choices that is withdrawn costs a step for each, not for each pair of them",
    report="own risk: each of 128 aborts moved all choices left, and compared the prompt for each",
)
@pytest.mark.parametrize("steps", [0, 1, 3])
def test_a_family_that_is_aborted_together_is_moved_nowhere(steps: int) -> None:
    made = harness(max_num_batched_tokens=32)
    prompt = Incomparable(PROMPT)
    family = [replace(parent(), prompt_token_ids=prompt)]
    family += [child(request_id, prompt_token_ids=prompt) for request_id in range(1, 128)]
    for request in family:
        made.add(request)
    for _ in range(steps):
        made.step()
    known = {each: made.scheduler.roster.find(each) for each in range(128)}
    assert None not in known.values()
    made.disturb(Disturbance(aborts=tuple(range(120))))
    assert all(s is not None and s.parent_id == 0 for each, s in known.items() if 0 < each < 120)
    last = [known[each] for each in range(120, 128)]
    assert [s.parent_id for s in last if s is not None] == [None, *[120] * 7]
    while made.scheduler.has_work:
        made.step()
    made.scheduler.check_idle()
    assert all(len(made.run.tokens[each]) == 8 for each in range(120, 128))


def test_a_child_that_comes_while_its_parent_is_preempted_forks_it_at_once() -> None:
    made = harness(prefix_caching=True)
    first = parent(max_tokens=100)
    made.add(first)
    for _ in range(20):
        made.step()
    running = made.scheduler.roster.running.get(0)
    assert running is not None
    made.scheduler.roster.preempt(running, made.now_s)
    made.add(child(1))
    steps = [[chunk.request_id for chunk in made.step().chunks] for _ in range(2)]
    assert 1 in steps[1]
    finish(made, first, child(1))


def test_children_of_a_preempted_parent_wait_beside_it_and_are_counted() -> None:
    made = harness(max_num_seqs=1)
    for request in (parent(max_tokens=20), child(1), child(2)):
        made.add(request)
    made.step()
    running = made.scheduler.roster.running.get(0)
    assert running is not None
    made.scheduler.roster.preempt(running, made.now_s)
    assert made.scheduler.waiting_tokens == len(PROMPT) + 1 + 2
    made.disturb(Disturbance(aborts=(1,)))
    finish(made, parent(max_tokens=20), child(2))
