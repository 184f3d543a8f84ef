"""The loop between a channel, a scheduler and a runner, on a clock that tests move."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise

import pytest

from paceline_engine.config import StepTimeLaw
from paceline_engine.engine.loop import (
    AUDIT_PAUSE_S,
    HEARTBEAT_S,
    MESSAGES_A_TURN,
    TOKENS_A_TURN,
    EngineLoop,
)
from paceline_engine.engine.watchdog import STUCK_S, EngineStuckError
from paceline_engine.kvcache.block_pool import KvIntegrityError
from paceline_engine.kvcache.idle_audit import AUDITED_A_BEAT
from paceline_engine.message import (
    AbortRequests,
    AddRequest,
    ApplyTunables,
    Fork,
    FromEngine,
    Shutdown,
    StepReport,
    StepStats,
    ToEngine,
    TokenOutput,
    TunablesApplied,
)
from paceline_engine.request import CacheScope, FinishReason, Request, Tier
from paceline_engine.runner.simulated import SimulatedRunner, TokenLaw
from paceline_engine.sampling import SamplingParams
from paceline_engine.scheduler.admission import Admission
from paceline_engine.scheduler.scheduler import Scheduler
from tests.support.engine_config import engine_config
from tests.support.fake_clock import FakeClock

STEP_S = 0.010
LAW = StepTimeLaw(base_ms=STEP_S * 1e3, per_token_ms=0.0)


class FakeChannel:
    """Delivers what a test puts in, keeps what the loop sends."""

    def __init__(self, clock: FakeClock) -> None:
        self.inbox: list[ToEngine] = []
        self.sent: list[FromEngine] = []
        self._clock = clock

    def send(self, message: FromEngine) -> None:
        self.sent.append(message)

    def wait(self, timeout_s: float) -> bool:
        if not self.inbox:
            self._clock.time_s += timeout_s
        return bool(self.inbox)

    def pending(self) -> Iterator[ToEngine]:
        while self.inbox:
            yield self.inbox.pop(0)


class Bench:
    """A loop with its parts in reach."""

    def __init__(self, *, per_token_ms: float = 0.0, **changes: object) -> None:
        config = engine_config(**{"prefix_caching": False, **changes})
        self.clock = FakeClock()
        self.channel = FakeChannel(self.clock)
        self.scheduler = Scheduler(config)
        tokens = TokenLaw(config.vocab_size, config.eos_token_ids)
        runner = SimulatedRunner(replace(LAW, per_token_ms=per_token_ms), tokens, self.clock)
        self.loop = EngineLoop(self.scheduler, runner, self.channel, self.clock)

    def turn(self, *messages: ToEngine) -> list[FromEngine]:
        """One turn with these messages waiting; returns what it sent."""
        self.channel.inbox.extend(messages)
        before = len(self.channel.sent)
        self.loop.turn()
        return self.channel.sent[before:]

    def turns(self, count: int) -> None:
        """So many turns without news."""
        for _ in range(count):
            self.loop.turn()

    def step(self, *messages: ToEngine) -> StepReport:
        """One turn that must send a single report."""
        (report,) = self.turn(*messages)
        assert isinstance(report, StepReport)
        return report


def add(
    request_id: int, prompt: int = 20, max_tokens: int = 4, tier: Tier = Tier.INTERACTIVE
) -> AddRequest:
    return AddRequest(
        request=Request(
            request_id=request_id,
            prompt_token_ids=(1,) * prompt,
            sampling=SamplingParams(seed=request_id, max_tokens=max_tokens),
            tier=tier,
        )
    )


def test_a_request_runs_to_its_end_with_one_report_a_step() -> None:
    bench = Bench()
    reports = [bench.step(add(1, max_tokens=3)), bench.step(), bench.step()]
    outputs = [output for report in reports for output in report.outputs]
    law = TokenLaw(300, (0,))
    assert [o.token_ids for o in outputs] == [(law.token(1, p),) for p in (20, 21, 22)]
    assert [o.finish_reason for o in outputs] == [None, None, FinishReason.LENGTH]
    assert reports[-1].state.requests_running == 0
    assert reports[-1].state.kv_blocks_free == 64


def test_measurements_of_a_step() -> None:
    bench = Bench(max_num_batched_tokens=32)
    bench.step(add(1, prompt=8))
    assert bench.step(add(2, prompt=40)).stats == StepStats(
        step_class="mixed",
        duration_s=pytest.approx(STEP_S),
        prefill_tokens=31,
        decode_rows=1,
        resident_kv_tokens=9 + 31,
        chunk_context=31 * 31,
        at_budget=True,
        preemptions=0,
        sampled_tokens=1,
    )
    stats = bench.step().stats
    assert stats is not None
    assert (stats.step_class, stats.prefill_tokens, stats.at_budget) == ("mixed", 9, False)
    assert stats.chunk_context == 9 * 40


def test_a_chunk_that_samples_nothing_still_reports() -> None:
    report = Bench(max_num_batched_tokens=32).step(add(1, prompt=40))
    assert report.outputs == ()
    assert report.stats is not None
    assert report.stats.sampled_tokens == 0


def test_queue_time_is_told_once_with_the_first_token() -> None:
    bench = Bench(max_num_seqs=1)
    bench.step(add(1, max_tokens=3), add(2, max_tokens=3))
    queued = [output.queue_s for _ in range(5) for output in bench.step().outputs]
    assert queued == [None, None, pytest.approx(3 * STEP_S), None, None]


@pytest.mark.behaviour(
    "a request's wait begins when the server hands it over, not when the loop reads it",
    report="own risk: in a burst the queue time, the waiting and the maximum wait began too late",
)
def test_the_wait_begins_where_the_request_was_handed_over() -> None:
    bench = Bench(max_num_seqs=1, interactive_max_wait_s=2.0)
    now_s = bench.clock.now()
    handed = [replace(add(each, max_tokens=1).request, received_s=now_s - 1.5) for each in (1, 2)]
    outputs = bench.step(*map(AddRequest, handed)).outputs
    bench.clock.time_s = now_s + 0.6  # the second has waited longer than it may: none overtakes it
    outputs += bench.step(AddRequest(replace(add(3).request, deadline_s=0.001))).outputs
    told = [(output.request_id, output.queue_s) for output in outputs]
    assert told == [(1, pytest.approx(1.5)), (2, pytest.approx(2.1))]


def test_a_request_from_the_future_comes_now() -> None:
    bench = Bench()
    asked = replace(add(1).request, received_s=bench.clock.now() + 5)
    assert [output.queue_s for output in bench.step(AddRequest(asked)).outputs] == [0.0]


def test_back_to_back_steps_are_timed_from_end_to_end() -> None:
    """Host work between two steps is what clients wait for, so it counts."""
    bench = Bench()
    bench.step(add(1))
    bench.clock.time_s += 0.5
    stats = bench.step().stats
    assert stats is not None
    assert stats.duration_s == pytest.approx(0.5 + STEP_S)


def test_waiting_for_work_is_not_busy_time() -> None:
    bench = Bench()
    bench.step(add(1, max_tokens=1))
    bench.turn()
    bench.clock.time_s += 30
    stats = bench.step(add(2)).stats
    assert stats is not None
    assert stats.duration_s == pytest.approx(STEP_S)


def test_state_counts_everything() -> None:
    bench = Bench(max_num_seqs=1, num_kv_blocks=32)
    state = bench.step(add(1, prompt=20), add(2, prompt=33)).state
    assert (state.requests_running, state.requests_waiting, state.waiting_tokens) == (1, 1, 33)
    assert (state.kv_blocks_free, state.kv_blocks_held, state.kv_blocks_cached) == (30, 2, 0)
    assert (state.prefix_queries_tokens, state.prefix_hits_tokens) == (0, 0)
    assert (state.batch_running, state.batch_waiting, state.batch_waiting_tokens) == (0, 0, 0)


def test_state_tells_the_batch_tier_apart() -> None:
    bench = Bench(max_num_seqs=2)
    state = bench.step(*(add(i, prompt=10 + i, tier=Tier.BATCH) for i in range(3)), add(9)).state
    assert (state.requests_running, state.requests_waiting, state.waiting_tokens) == (2, 2, 23)
    assert (state.batch_running, state.batch_waiting, state.batch_waiting_tokens) == (1, 2, 23)


def test_hits_of_the_prefix_cache_are_told_with_the_first_token_and_counted() -> None:
    bench = Bench(prefix_caching=True)
    first = bench.step(add(1, prompt=40, max_tokens=1))
    second = bench.step(add(2, prompt=40, max_tokens=2))
    assert [r.outputs[0].cached_tokens for r in (first, second, bench.step())] == [0, 32, None]
    state = bench.step().state
    assert (state.prefix_queries_tokens, state.prefix_hits_tokens) == (80, 32)


@pytest.mark.behaviour(
    "queue time is told once, with the first token, also where the request was preempted",
    report="vllm #8115: more first tokens counted than requests",
)
def test_first_tokens_are_told_once_each() -> None:
    bench = Bench(num_kv_blocks=8, max_model_len=128)
    reports = [bench.step(*(add(i, prompt=40, max_tokens=30) for i in (1, 2)))]
    while bench.scheduler.has_work:
        reports.append(bench.step())
    assert sum(report.stats.preemptions for report in reports if report.stats) > 0
    told = [o for report in reports for o in report.outputs if o.queue_s is not None]
    assert sorted(output.request_id for output in told) == [1, 2]


def test_a_step_time_target_is_applied_reported_and_kept() -> None:
    """The device takes 10 ms and 0.1 ms a token; the target of 20 ms leaves 100 tokens."""
    bench = Bench(
        max_num_batched_tokens=256, max_model_len=8192, num_kv_blocks=600, per_token_ms=0.1
    )
    bench.step(add(1, prompt=8000))
    applied, report = bench.turn(ApplyTunables(call_id=1, step_time_target_ms=20.0))
    assert applied == TunablesApplied(1, 256, 16, 20.0)
    assert isinstance(report, StepReport)
    assert report.state.step_time_target_ms == 20.0
    stats = [bench.step().stats for _ in range(30)]
    settled = [step.duration_s for step in stats[15:] if step is not None]
    assert all(0.018 <= duration_s <= 0.0201 for duration_s in settled)
    applied, _ = bench.turn(ApplyTunables(call_id=2, max_num_running_seqs=4))
    assert applied == TunablesApplied(2, 256, 4, 20.0)
    applied, report = bench.turn(ApplyTunables(call_id=3, step_time_target_ms=0.0))
    assert applied == TunablesApplied(3, 256, 4, 0.0)
    assert isinstance(report, StepReport)
    assert report.stats is not None
    assert report.stats.prefill_tokens == 256


def test_idle_it_beats_once_a_second() -> None:
    bench = Bench()
    started = bench.clock.now()
    beats = [bench.step() for _ in range(3)]
    assert [beat.stats for beat in beats] == [None] * 3
    assert bench.clock.now() - started == pytest.approx(3 * HEARTBEAT_S)


def test_messages_that_bring_no_work_are_followed_by_a_report() -> None:
    bench = Bench()
    bench.step(add(1))
    before = bench.clock.now()
    report = bench.step(AbortRequests(request_ids=(1,)))
    assert (report.stats, report.state.kv_blocks_free) == (None, 64)
    assert bench.clock.now() == before


def test_aborts_take_effect_before_the_next_step() -> None:
    bench = Bench()
    bench.step(add(1), add(2))
    report = bench.step(AbortRequests(request_ids=(1, 99)))
    assert [output.request_id for output in report.outputs] == [2]


def test_aborts_in_a_row_are_one_and_keep_their_place_between_others() -> None:
    """So a call of many choices is withdrawn as a whole, though each has a message of its own."""
    bench = Bench()
    seen: list[tuple[int, ...]] = []
    abort = bench.scheduler.abort

    def recorded(request_ids: Iterable[int], now_s: float) -> None:
        seen.append(tuple(request_ids))
        abort(seen[-1], now_s)

    bench.scheduler.abort = recorded  # type: ignore[method-assign]  # looked at from outside
    before = [AbortRequests(request_ids=(each,)) for each in range(3)]
    report = bench.step(*before, add(1), AbortRequests((1, 7)), AbortRequests((8,)), add(2))
    assert seen == [(0, 1, 2), (1, 7, 8)]
    assert [output.request_id for output in report.outputs] == [2]


def test_added_and_aborted_in_one_breath_never_runs() -> None:
    bench = Bench()
    report = bench.step(add(1), AbortRequests(request_ids=(1,)))
    assert (report.stats, report.state.requests_waiting) == (None, 0)


def test_tunables_are_answered_and_hold_from_the_next_step() -> None:
    bench = Bench(max_num_batched_tokens=64, max_num_seqs=2)
    bench.step(add(1, prompt=200))
    applied, report = bench.turn(
        ApplyTunables(call_id=7, max_num_batched_tokens=37, max_num_running_seqs=1)
    )
    assert applied == TunablesApplied(7, 32, 1, 0.0)
    assert isinstance(report, StepReport)
    assert report.stats is not None
    assert report.stats.prefill_tokens == 32
    assert (report.state.max_num_batched_tokens, report.state.max_num_running_seqs) == (32, 1)


@pytest.mark.behaviour(
    "what can never run is refused alone, with the numbers; the engine goes on",
    report="vllm #7283, #39734: an empty prompt, or one larger than memory, stops everybody",
)
def test_what_the_server_let_through_wrongly_is_refused_alone() -> None:
    bench = Bench(max_model_len=64)
    refusal, report = bench.turn(add(1, prompt=64), add(2))
    assert isinstance(refusal, StepReport)
    (output,) = refusal.outputs
    assert (output.request_id, output.finish_reason) == (1, FinishReason.ERROR)
    assert "64 tokens does not fit" in (output.error or "")
    assert isinstance(report, StepReport)
    assert [o.request_id for o in report.outputs] == [2]


def test_shutdown_ends_the_loop_without_another_step() -> None:
    bench = Bench()
    bench.step(add(1))
    bench.channel.inbox.append(Shutdown())
    bench.loop.run()
    assert len(bench.channel.sent) == 1


def test_blocks_are_counted_once_idle() -> None:
    bench = Bench()
    bench.step(add(1, max_tokens=1))
    bench.scheduler.pool.admit(55, (1,) * 16, CacheScope(), 0.0)
    with pytest.raises(KvIntegrityError, match="55"):
        bench.turn()


def test_blocks_are_counted_some_at_a_beat_and_anew_after_work() -> None:
    bench = Bench(num_kv_blocks=4 * AUDITED_A_BEAT, max_model_len=128)
    bench.step(add(1, max_tokens=1))
    started = bench.clock.now()
    for _ in range(3):
        assert len(bench.turn()) == 1
    bench.step(add(2, max_tokens=1))
    bench.scheduler.pool._ledger._free[0] = bench.scheduler.pool._ledger._free[1]
    bench.scheduler.pool._ledger._free[-1] = bench.scheduler.pool._ledger._free[-2]
    assert bench.clock.now() - started < HEARTBEAT_S
    with pytest.raises(KvIntegrityError):
        bench.turn()


def test_after_the_last_block_it_beats_once_a_second_again() -> None:
    bench = Bench(num_kv_blocks=4 * AUDITED_A_BEAT, max_model_len=128)
    bench.step(add(1, max_tokens=1))
    times = []
    for _ in range(6):
        bench.turn()
        times.append(bench.clock.now())
    gaps = [after - before for before, after in pairwise(times)]
    assert gaps == pytest.approx([AUDIT_PAUSE_S] * 3 + [HEARTBEAT_S] * 2)


def test_preemptions_are_counted() -> None:
    bench = Bench(num_kv_blocks=8, max_model_len=128)
    stats = [bench.step(*(add(i, prompt=40, max_tokens=30) for i in (1, 2))).stats]
    outputs: list[TokenOutput] = []
    while bench.scheduler.has_work:
        report = bench.step()
        stats.append(report.stats)
        outputs.extend(report.outputs)
    assert sum(step.preemptions for step in stats if step is not None) > 0
    law = TokenLaw(300, (0,))
    got = [token for output in outputs if output.request_id == 2 for token in output.token_ids]
    assert got == [law.token(2, position) for position in range(41, 70)]


def test_work_that_never_starts_ends_the_loop_with_a_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench()
    monkeypatch.setattr(Admission, "next", lambda *_: None)  # as a defect would
    assert bench.step(add(1)).state.requests_waiting == 1
    with pytest.raises(EngineStuckError, match="1 requests wait"):
        bench.turns(1000)
    assert bench.clock.now() - 1000.0 <= STUCK_S + 1


@pytest.mark.behaviour(
    "a flood of messages holds up no running stream: a step runs after each few hundred",
    report="own risk: one turn read 10,000 requests before the next step",
)
def test_a_turn_reads_a_bounded_number_of_messages() -> None:
    bench = Bench(max_num_seqs=1)
    bench.step(add(1, max_tokens=100))
    flood = [add(request_id) for request_id in range(2, 1002)]
    states = [bench.step(*flood).state, *(bench.step().state for _ in range(4))]
    assert [state.requests_waiting for state in states] == [256, 512, 768, 1000, 1000]
    assert [state.requests_taken for state in states] == [257, 513, 769, 1001, 1001]


@pytest.mark.behaviour(
    "a turn reads a bounded number of prompt tokens, however few messages they come in",
    report="own risk: 256 long prompts in a turn were read before the next token of any stream",
)
def test_a_turn_reads_a_bounded_number_of_tokens() -> None:
    bench = Bench(max_model_len=4096, num_kv_blocks=1024, max_num_seqs=1)
    prompt = 4000
    bench.step(add(0, prompt=20, max_tokens=40))
    bench.channel.inbox.extend(add(each, prompt=prompt) for each in range(1, 31))
    waiting = [bench.step().state.requests_waiting for _ in range(3)]
    a_turn = -(-TOKENS_A_TURN // prompt)
    assert waiting == [a_turn, 30, 30]


def test_what_is_cached_expires_while_nothing_runs() -> None:
    bench = Bench(prefix_caching=True, cache_retention_s=5.0)
    bench.step(add(1, prompt=64, max_tokens=1))
    cached = [bench.step().state.kv_blocks_cached for _ in range(8)]
    assert cached[:4] == [4] * 4
    assert cached[-1] == 0


def test_a_large_family_is_taken_over_several_turns_and_whole() -> None:
    """A call of many choices is one message, and holds up running streams no more than many are."""
    count = 2 * MESSAGES_A_TURN + 10
    family = AddRequest(
        add(1, max_tokens=2).request, tuple(Fork(1 + each, seed=each) for each in range(1, count))
    )
    bench = Bench(max_num_seqs=8, num_kv_blocks=4096)
    seen = [bench.step(family, AbortRequests((count,))).state]
    assert seen[0].requests_waiting + 1 == MESSAGES_A_TURN
    outputs: list[TokenOutput] = []
    while seen[-1].requests_running or seen[-1].requests_waiting:
        report = bench.step()
        seen.append(report.state)
        outputs += report.outputs
    ended = [output.request_id for output in outputs if output.finish_reason]
    assert sorted(ended) == list(range(1, count))  # the last one was withdrawn, after it came
