"""A step's decodes are applied in one go; what comes of it is what comes of each by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from paceline_engine.message import TokenOutput
from paceline_engine.request import CacheScope, Request, Tier
from paceline_engine.runner.base import RunnerOutput
from paceline_engine.sampling import SamplingParams
from paceline_engine.scheduler import scheduler as module
from paceline_engine.scheduler.output import SchedulerOutput
from paceline_engine.scheduler.scheduler import Scheduler
from tests.support.engine_config import engine_config

EOS = 2
Member = tuple[str, Tier, int, int, bool, int]
Steps = list[tuple[object, ...]]


def members() -> st.SearchStrategy[list[Member]]:
    return st.lists(
        st.tuples(
            st.sampled_from("ab"),
            st.sampled_from(Tier),
            st.integers(1, 40),
            st.integers(1, 60),
            st.booleans(),
            st.integers(0, 9),
        ),
        min_size=1,
        max_size=14,
    )


def submit(scheduler: Scheduler, request_id: int, member: Member, now_s: float) -> None:
    tenant, tier, prompt, output, ignore_eos, _ = member
    request = Request(
        request_id=request_id,
        prompt_token_ids=(3 + request_id % 5,) * prompt,
        sampling=SamplingParams(seed=request_id, max_tokens=output, ignore_eos=ignore_eos),
        tier=tier,
        cache_scope=CacheScope(tenant=tenant),
    )
    scheduler.add(request, now_s)


def run(load: list[Member], blocks: int, abort_every: int) -> tuple[Steps, object]:
    """Everything decided and told, with tokens that depend on the request and the position."""
    scheduler = Scheduler(
        engine_config(
            num_kv_blocks=blocks,
            max_num_seqs=6,
            max_num_batched_tokens=32,
            max_model_len=128,
            eos_token_ids=(EOS,),
        )
    )
    told: Steps = []
    waiting, step_id = list(enumerate(load)), 0
    while waiting or scheduler.has_work:
        now_s = 0.01 * step_id
        while waiting and waiting[0][1][-1] <= step_id:
            submit(scheduler, *waiting.pop(0), now_s)
        step_id += 1
        if not scheduler.has_work:
            continue
        step = scheduler.schedule(now_s)
        if abort_every and step_id % abort_every == 0:  # while the step is in flight
            scheduler.abort([step.chunks[step_id % len(step.chunks)].request_id], now_s)
        outputs = scheduler.update(RunnerOutput(sampled=_draw(step)), now_s)
        scheduler.pool.check_integrity()
        told.append((_plain(step), outputs))
    shares = [scheduler.roster.queue._shares[tier].tag for tier in Tier]
    return told, (shares, scheduler.pool.num_cached, sorted(scheduler.pool._ledger._cached))


def _draw(step: SchedulerOutput) -> tuple[tuple[int, int], ...]:
    return tuple(
        (chunk.request_id, (7 * chunk.request_id + 3 * chunk.end) % 23)
        for chunk in step.chunks
        if chunk.samples
    )


def _plain(step: SchedulerOutput) -> tuple[Any, ...]:
    """A step without what grows after it."""
    chunks = [
        (c.request_id, tuple(c.token_ids), c.start, tuple(c.block_ids), c.is_decode, c.samples)
        for c in step.chunks
    ]
    return chunks, step.preempted, step.started, step.wipes


def apart(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Makes every step be applied chunk by chunk, until it is called."""
    monkeypatch.setattr(module, "_is_plain", lambda *_: False)
    return monkeypatch.undo


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(load=members(), blocks=st.integers(8, 40), abort_every=st.sampled_from([0, 3, 7]))
def test_all_in_one_go_is_each_by_itself(
    monkeypatch: pytest.MonkeyPatch, load: list[Member], blocks: int, abort_every: int
) -> None:
    at_once = run(load, blocks, abort_every)
    undo = apart(monkeypatch)
    try:
        assert run(load, blocks, abort_every) == at_once
    finally:
        undo()
    event(f"preempts: {any(step[0][1] for step in at_once[0])}")  # type: ignore[index]  # a step


def test_who_is_aborted_while_a_step_is_in_flight_gets_nothing_and_harms_nobody() -> None:
    scheduler = Scheduler(engine_config(max_num_seqs=4))
    for request_id in range(3):
        submit(scheduler, request_id, ("a", Tier.INTERACTIVE, 4, 9, True, 0), 0.0)
    for _ in range(2):
        scheduler.update(RunnerOutput(sampled=_draw(scheduler.schedule(0.0))), 0.0)
    step = scheduler.schedule(0.0)
    assert step.decode_rows == 3
    scheduler.abort([1], 0.0)
    outputs: tuple[TokenOutput, ...] = scheduler.update(RunnerOutput(sampled=_draw(step)), 0.0)
    assert [output.request_id for output in outputs] == [0, 2]


def test_results_without_a_step_are_found_out() -> None:
    scheduler = Scheduler(engine_config())
    submit(scheduler, 1, ("a", Tier.INTERACTIVE, 4, 9, True, 0), 0.0)
    for _ in range(2):
        result = RunnerOutput(sampled=_draw(scheduler.schedule(0.0)))
        scheduler.update(result, 0.0)
    assert scheduler.update(RunnerOutput(sampled=()), 0.0) == ()
    with pytest.raises(module.RunnerContractError):
        scheduler.update(result, 0.0)


@pytest.mark.parametrize("sampled", [((1, 5), (1, 6)), ((1, 5), (1, 5)), ((2, 5),), ()])
def test_two_answers_none_or_anothers_are_found_out(sampled: tuple[tuple[int, int], ...]) -> None:
    scheduler = Scheduler(engine_config())
    submit(scheduler, 1, ("a", Tier.INTERACTIVE, 4, 9, True, 0), 0.0)
    scheduler.schedule(0.0)
    with pytest.raises(module.RunnerContractError):
        scheduler.update(RunnerOutput(sampled=sampled), 0.0)
