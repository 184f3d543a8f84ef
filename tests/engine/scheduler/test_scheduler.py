"""Decisions of single steps: who runs, how much, who yields, who waits."""

from __future__ import annotations

import pytest

from paceline_engine.kvcache.block_pool import KvIntegrityError
from paceline_engine.message import TokenLogprobs
from paceline_engine.request import CacheScope, Fault, FinishReason, Request
from paceline_engine.runner.base import RunnerOutput
from paceline_engine.sampling import SamplingParams
from paceline_engine.scheduler.output import SchedulerOutput
from paceline_engine.scheduler.scheduler import (
    RequestRefusedError,
    RunnerContractError,
    Scheduler,
)
from tests.support.engine_config import engine_config

TOKEN = 7


def request(
    request_id: int, prompt: int = 20, max_tokens: int = 30, stops: tuple[int, ...] = ()
) -> Request:
    return Request(
        request_id=request_id,
        prompt_token_ids=tuple(range(1, prompt + 1)),
        sampling=SamplingParams(max_tokens=max_tokens, stop_token_ids=stops),
    )


def scheduler(*prompts: int, **changes: object) -> Scheduler:
    """A scheduler with requests 0, 1, ... of these prompt lengths waiting."""
    made = Scheduler(engine_config(**{"prefix_caching": False, **changes}))
    for request_id, prompt in enumerate(prompts):
        made.add(request(request_id, prompt), now_s=0.0)
    return made


def drawn(*sampled: tuple[int, int], failed: tuple[tuple[int, str], ...] = ()) -> RunnerOutput:
    return RunnerOutput(sampled=sampled, failed=failed)


def step(made: Scheduler) -> SchedulerOutput:
    """Decides a step and lets every sampling chunk draw `TOKEN`."""
    decided = made.schedule(0.0)
    made.update(drawn(*((c.request_id, TOKEN) for c in decided.chunks if c.samples)), 0.0)
    return decided


def shape(decided: SchedulerOutput) -> list[tuple[int, int, int, bool]]:
    """(request, start, length, samples) of each chunk."""
    return [(c.request_id, c.start, len(c.token_ids), c.samples) for c in decided.chunks]


def test_prompts_run_together_in_order_of_arrival() -> None:
    made = scheduler(20, 30, 10)
    assert shape(step(made)) == [(0, 0, 20, True), (1, 0, 30, True), (2, 0, 10, True)]
    assert shape(step(made)) == [(0, 20, 1, True), (1, 30, 1, True), (2, 10, 1, True)]


def test_a_long_prompt_runs_in_chunks_of_the_budget() -> None:
    made = scheduler(100, max_num_batched_tokens=48)
    assert [shape(step(made)) for _ in range(3)] == [
        [(0, 0, 48, False)],
        [(0, 48, 48, False)],
        [(0, 96, 4, True)],
    ]


def test_decodes_come_first_and_prefill_fills_the_rest() -> None:
    made = scheduler(5, 5, max_num_batched_tokens=48)
    step(made)
    made.add(request(2, 100), now_s=0.0)
    assert shape(step(made)) == [(0, 5, 1, True), (1, 5, 1, True), (2, 0, 46, False)]
    assert shape(step(made)) == [(0, 6, 1, True), (1, 6, 1, True), (2, 46, 46, False)]


def test_a_budget_that_one_prompt_leaves_open_goes_to_the_next() -> None:
    made = scheduler(40, 40, max_num_batched_tokens=64)
    assert shape(step(made)) == [(0, 0, 40, True), (1, 0, 24, False)]
    assert shape(step(made)) == [(0, 40, 1, True), (1, 24, 16, True)]


def test_the_budget_changes_between_two_steps() -> None:
    made = scheduler(200, max_num_batched_tokens=96)
    assert shape(step(made)) == [(0, 0, 96, False)]
    made.limits.apply(max_num_batched_tokens=32)
    assert shape(step(made)) == [(0, 96, 32, False)]
    made.limits.apply(max_num_batched_tokens=64)
    assert shape(step(made)) == [(0, 128, 64, False)]


def test_a_chunk_covers_only_its_own_blocks() -> None:
    made = scheduler(100, max_num_batched_tokens=48)
    chunk = step(made).chunks[0]
    assert len(chunk.block_ids) == 3
    assert chunk.token_ids == list(range(1, 49))


def test_the_running_cap_drains_down_without_ending_anyone() -> None:
    made = scheduler(5, 5, 5, 5, max_num_seqs=3)
    assert len(step(made).chunks) == 3
    made.limits.apply(max_num_running_seqs=1)
    assert [c.request_id for c in step(made).chunks] == [0, 1, 2]
    made.abort([0], 0.0)
    assert [c.request_id for c in step(made).chunks] == [1, 2]
    made.abort([1, 2], 0.0)
    assert [c.request_id for c in step(made).chunks] == [3]
    assert made.num_waiting == 0


def test_a_raised_cap_admits_at_once() -> None:
    made = scheduler(5, 5, 5, max_num_seqs=3, initial_running_seqs=1)
    assert made.schedule(0.0).decode_rows == 0
    made.update(drawn((0, TOKEN)), 0.0)
    made.limits.apply(max_num_running_seqs=3)
    assert shape(step(made)) == [(0, 5, 1, True), (1, 0, 5, True), (2, 0, 5, True)]


def full_pool() -> Scheduler:
    """Three runners of two blocks each, 32 tokens; six of eight blocks, no room for a fourth."""
    made = scheduler(30, 30, 30, num_kv_blocks=8, max_model_len=128)
    for _ in range(3):
        step(made)
    return made


def test_a_full_pool_preempts_the_latest_and_it_comes_back_whole() -> None:
    made = full_pool()
    decided = step(made)
    assert decided.preempted == (2,)
    assert shape(decided) == [(0, 32, 1, True), (1, 32, 1, True)]
    assert (made.num_running, made.num_waiting, made.waiting_tokens) == (2, 1, 33)
    assert made.pool.num_free == 2
    made.abort([0], 0.0)
    decided = step(made)
    assert shape(decided) == [(1, 33, 1, True), (2, 0, 33, True)]
    assert not decided.chunks[1].is_decode
    assert decided.chunks[1].token_ids == [*range(1, 31), TOKEN, TOKEN, TOKEN]
    assert decided.started == ()


def test_nothing_is_admitted_in_a_step_that_preempted() -> None:
    made = full_pool()
    made.add(request(9, 1), now_s=0.0)
    decided = step(made)
    assert decided.preempted == (2,)
    assert 9 not in [chunk.request_id for chunk in decided.chunks]


def test_who_was_preempted_comes_before_who_waits() -> None:
    made = full_pool()
    made.add(request(9, 1), now_s=0.0)
    step(made)
    made.abort([0], 0.0)
    assert [chunk.request_id for chunk in step(made).chunks] == [1, 2]
    assert made.num_waiting == 1


def test_the_oldest_runner_may_preempt_all_others_but_never_itself() -> None:
    made = scheduler(40, 40, num_kv_blocks=8, max_model_len=128)
    preempted: list[int] = []
    while made.has_work:
        preempted += step(made).preempted
    assert set(preempted) == {1}
    made.check_idle()


def test_admission_leaves_a_spare_block_for_each_runner() -> None:
    made = scheduler(16, num_kv_blocks=8, max_model_len=128)
    step(made)
    made.add(request(1, 16 * 7), now_s=0.0)
    assert [c.request_id for c in step(made).chunks] == [0]
    made.add(request(2, 16), now_s=0.0)
    assert [c.request_id for c in step(made).chunks] == [0]  # first come, first served
    made.abort([1], 0.0)
    assert [c.request_id for c in step(made).chunks] == [0, 2]


def test_started_names_a_request_once() -> None:
    made = scheduler(40, max_num_batched_tokens=16)
    assert [step(made).started for _ in range(3)] == [(0,), (), ()]


@pytest.mark.parametrize(
    ("token", "shown", "reason"),
    [
        (5, (5,), None),
        (0, (), FinishReason.STOP),
        (9, (), FinishReason.STOP),
    ],
    ids=["goes on", "end of generation", "stop token"],
)
def test_outputs(token: int, shown: tuple[int, ...], reason: FinishReason | None) -> None:
    made = scheduler()
    made.add(request(4, stops=(9,)), now_s=0.0)
    made.schedule(0.0)
    (output,) = made.update(drawn((4, token)), 0.0)
    assert (output.token_ids, output.finish_reason) == (shown, reason)
    assert output.stop_token_id == (token if reason is FinishReason.STOP else None)
    assert made.has_work is (reason is None)


def test_the_last_token_is_shown_with_its_reason() -> None:
    made = scheduler()
    made.add(request(4, max_tokens=1), now_s=0.0)
    made.schedule(0.0)
    (output,) = made.update(drawn((4, TOKEN)), 0.0)
    assert (output.token_ids, output.finish_reason) == ((TOKEN,), FinishReason.LENGTH)
    made.check_idle()


def test_the_context_ends_an_output_early() -> None:
    made = scheduler(30, max_model_len=32)
    step(made)
    made.schedule(0.0)
    (output,) = made.update(drawn((0, TOKEN)), 0.0)
    assert output.finish_reason is FinishReason.LENGTH


@pytest.mark.behaviour(
    "an empty prompt, or one that the KV pool can never hold, is refused alone and at once",
    report="vllm #7283, #39734: the engine stopped, or everybody waited behind it for ever",
)
@pytest.mark.parametrize("prompt", [0, 64, 65])
def test_a_prompt_that_cannot_fit_is_refused(prompt: int) -> None:
    made = scheduler(max_model_len=128, num_kv_blocks=4)
    with pytest.raises(RequestRefusedError, match=f"{prompt} tokens does not fit: 1 to 63"):
        made.add(request(0, prompt), now_s=0.0)
    assert not made.has_work


def test_the_longest_prompt_that_fits_runs_alone_to_its_end() -> None:
    made = scheduler(63, max_model_len=128, num_kv_blocks=4)
    assert step(made).chunks[0].samples
    assert not made.has_work


@pytest.mark.behaviour(
    "an id that is in use is refused and its owner goes on",
    report="vllm #10583: two live requests with one id crashed the engine",
)
@pytest.mark.parametrize("steps", [0, 1], ids=["waiting", "running"])
def test_an_id_in_use_is_refused(steps: int) -> None:
    made = scheduler(20)
    for _ in range(steps):
        step(made)
    with pytest.raises(RequestRefusedError, match="request id 0 is in use"):
        made.add(request(0), now_s=0.0)


def test_aborting_frees_blocks_and_ignores_the_unknown() -> None:
    made = scheduler(20, 20, max_num_seqs=1)
    step(made)
    made.abort([0, 1, 77], 0.0)
    assert not made.has_work
    assert made.waiting_tokens == 0
    made.check_idle()


def test_one_failed_request_leaves_its_batch_mates_alone() -> None:
    made = scheduler(20, 20)
    made.schedule(0.0)
    mate, broken = made.update(drawn((1, TOKEN), failed=((0, "non-finite logits"),)), 0.0)
    assert (mate.request_id, mate.finish_reason) == (1, None)
    assert (broken.request_id, broken.finish_reason) == (0, FinishReason.ERROR)
    assert broken.error == "non-finite logits"
    assert [c.request_id for c in step(made).chunks] == [1]


def test_whose_fault_a_failure_is_goes_with_it() -> None:
    made = scheduler(20, 20)
    made.schedule(0.0)
    failed = ((0, "no token is left"), (1, "non-finite logits"))
    result = RunnerOutput(sampled=(), failed=failed, faults={0: Fault.EXHAUSTED})
    assert [output.fault for output in made.update(result, 0.0)] == [Fault.EXHAUSTED, None]


@pytest.mark.behaviour(
    "nothing that a request computed is reused once its logits were not finite",
    report="KV that is not finite either poisons whoever finds it, and each retry",
)
@pytest.mark.parametrize(
    ("budget", "steps"),
    [(512, 0), (32, 1), (512, 1), (512, 25)],
    ids=["one chunk", "second of two chunks", "first decode", "later decode"],
)
def test_nothing_that_a_failed_request_computed_is_reused(budget: int, steps: int) -> None:
    made = scheduler(40, prefix_caching=True, max_num_batched_tokens=budget)
    for _ in range(steps):
        step(made)
    made.schedule(0.0)
    made.update(drawn(failed=((0, "non-finite logits"),)), 0.0)
    assert made.pool.num_cached == 0
    made.add(request(1, 40), now_s=0.0)
    assert shape(step(made)) == [(1, 0, min(budget, 40), budget > 40)]


def test_logprobs_belong_to_shown_tokens_only() -> None:
    made = scheduler()
    made.add(request(4, stops=(9,)), now_s=0.0)
    logprob = TokenLogprobs(token_id=TOKEN, logprob=-0.5, rank=1)
    made.schedule(0.0)
    result = RunnerOutput(sampled=((4, TOKEN),), logprobs={4: logprob})
    assert made.update(result, 0.0)[0].logprobs == (logprob,)
    made.schedule(0.0)
    result = RunnerOutput(sampled=((4, 9),), logprobs={4: logprob})
    assert made.update(result, 0.0)[0].logprobs == ()


@pytest.mark.parametrize(
    ("sampled", "failed", "complaint"),
    [
        ([], [], "request 0 got no token"),
        ([(0, 1), (5, 1)], [], "belongs to no chunk"),
        ([(0, 1)], [(0, "broken")], "or to two"),
    ],
    ids=["none", "unknown", "two"],
)
def test_a_runner_that_answers_wrongly_is_found_out(
    sampled: list[tuple[int, int]], failed: list[tuple[int, str]], complaint: str
) -> None:
    made = scheduler(20)
    made.schedule(0.0)
    with pytest.raises(RunnerContractError, match=complaint):
        made.update(drawn(*sampled, failed=tuple(failed)), 0.0)


@pytest.mark.behaviour(
    "blocks are counted whenever the engine is idle: free + cached + held is the pool",
    report="sglang #6888, #11970: leaks found only when memory was gone",
)
def test_a_leak_is_found_when_idle() -> None:
    made = scheduler()
    made.check_idle()
    made.pool.admit(77, (1,) * 16, CacheScope(), 0.0)
    with pytest.raises(KvIntegrityError, match="77"):
        made.check_idle()


def test_without_work_a_step_is_empty() -> None:
    assert scheduler().schedule(0.0).chunks == ()
