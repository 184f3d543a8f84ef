"""Invariants of scheduling under any load, budget, pool, abort and change of knobs."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from paceline_engine.config import EngineConfig, budget_floor
from paceline_engine.message import TokenOutput
from paceline_engine.request import FinishReason, Request
from paceline_engine.sampling import SamplingParams
from paceline_engine.scheduler.output import ScheduledChunk, SchedulerOutput
from paceline_engine.scheduler.scheduler import Scheduler
from tests.engine.scheduler.paged_executor import PagedExecutor, reference_output
from tests.support.engine_config import engine_config

VOCAB = 50
EOS = frozenset({0})
MAX_REQUEST_TOKENS = 40
STEP_LIMIT = 5000
THOROUGH = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@dataclass(frozen=True)
class Disturbance:
    """What happens before a step besides arrivals."""

    aborts: tuple[int, ...] = ()
    budget: int | None = None
    running: int | None = None


@dataclass
class Run:
    """What one run of the scheduler gave."""

    tokens: dict[int, list[int]] = field(default_factory=dict)
    ends: dict[int, FinishReason] = field(default_factory=dict)
    preemptions: int = 0
    most_in_step: int = 0


@st.composite
def requests(draw: st.DrawFn) -> tuple[Request, ...]:
    count = draw(st.integers(1, 12))
    return tuple(
        Request(
            request_id=index,
            prompt_token_ids=tuple(
                draw(st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=38))
            ),
            sampling=SamplingParams(
                seed=draw(st.integers(0, 3)),
                max_tokens=draw(st.integers(1, 30)),
                ignore_eos=draw(st.booleans()),
                stop_token_ids=tuple(draw(st.lists(st.integers(0, VOCAB - 1), max_size=1))),
            ),
        )
        for index in range(count)
    )


@st.composite
def configs(draw: st.DrawFn) -> EngineConfig:
    """Pools from just one longest request to plenty; budgets from the floor up."""
    block_size = draw(st.sampled_from([1, 4, 16]))
    smallest = -(-MAX_REQUEST_TOKENS // block_size)
    seqs = draw(st.integers(1, 10))
    return engine_config(
        max_model_len=MAX_REQUEST_TOKENS,
        max_num_batched_tokens=draw(st.integers(2, 200)),
        max_num_seqs=seqs,
        initial_batched_tokens=draw(st.integers(1, 200)),
        block_size=block_size,
        num_kv_blocks=draw(st.integers(smallest, 3 * smallest)),
        vocab_size=VOCAB,
        eos_token_ids=tuple(EOS),
    )


def arrivals() -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, 3), min_size=12, max_size=12)


def disturbances() -> st.SearchStrategy[list[Disturbance]]:
    some = st.builds(
        Disturbance,
        aborts=st.lists(st.integers(0, 13), max_size=1).map(tuple),
        budget=st.none() | st.integers(0, 220),
        running=st.none() | st.integers(0, 12),
    )
    return st.lists(st.just(Disturbance()) | some, max_size=40)


class Harness:
    """Drives a scheduler and checks each step as it is decided."""

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        self.scheduler = Scheduler(config)
        self.executor = PagedExecutor(config.block_size, VOCAB)
        self.run = Run()
        self._step_id = 0

    def add(self, request: Request) -> None:
        self.scheduler.add(request)
        self.run.tokens[request.request_id] = []

    def disturb(self, disturbance: Disturbance) -> None:
        self.scheduler.abort(disturbance.aborts)
        for request_id in disturbance.aborts:
            if request_id in self.run.tokens:
                self.run.ends.setdefault(request_id, FinishReason.ABORT)
        self.scheduler.limits.apply(
            max_num_batched_tokens=disturbance.budget, max_num_running_seqs=disturbance.running
        )

    def step(self) -> None:
        running_before = self.scheduler.num_running
        step = self.scheduler.schedule()
        self.check(step, running_before)
        self.check_pool()
        for output in self.scheduler.update(self.executor.execute(step)):
            self.collect(output)
        self.check_pool()
        self.run.preemptions += len(step.preempted)
        self.run.most_in_step = max(self.run.most_in_step, len(step.chunks))

    def check(self, step: SchedulerOutput, running_before: int) -> None:
        assert step.step_id == self._step_id
        self._step_id += 1
        assert step.chunks, "work without a step"
        assert 0 < step.num_tokens <= step.budget <= self.config.max_num_batched_tokens
        assert step.num_tokens == sum(len(chunk.token_ids) for chunk in step.chunks)
        limits = self.scheduler.limits
        floor = budget_floor(running_before, self.config.budget_step)
        assert step.budget <= max(limits.max_num_batched_tokens, floor)
        ids = [chunk.request_id for chunk in step.chunks]
        assert len(set(ids)) == len(ids)
        assert not set(ids) & set(step.preempted)
        kinds = [chunk.is_decode for chunk in step.chunks]
        assert kinds == sorted(kinds, reverse=True), "decodes come first"
        assert self.scheduler.num_running <= max(limits.max_num_running_seqs, running_before)
        self.check_blocks(step.chunks)

    def check_blocks(self, chunks: tuple[ScheduledChunk, ...]) -> None:
        blocks = [block for chunk in chunks for block in chunk.block_ids]
        assert len(set(blocks)) == len(blocks)
        assert all(0 <= block < self.config.num_kv_blocks for block in blocks)
        for chunk in chunks:
            assert len(chunk.block_ids) == -(-chunk.end // self.config.block_size)
            assert chunk.samples or not chunk.is_decode

    def check_pool(self) -> None:
        pool = self.scheduler.pool
        pool.check_integrity()
        assert pool.num_free + pool.num_cached + pool.num_held == self.config.num_kv_blocks
        queued = self.scheduler._waiting.values()
        assert self.scheduler.waiting_tokens == sum(len(s.token_ids) for s in queued)

    def collect(self, output: TokenOutput) -> None:
        assert output.request_id not in self.run.ends, "output after the end"
        self.run.tokens[output.request_id].extend(output.token_ids)
        if output.finish_reason is not None:
            self.run.ends[output.request_id] = output.finish_reason


def drive(
    config: EngineConfig,
    load: tuple[Request, ...],
    gaps: list[int] | None = None,
    script: list[Disturbance] | None = None,
) -> Run:
    """Runs the load to its end; request i arrives `gaps[i]` steps after request i - 1."""
    harness = Harness(config)
    due: list[tuple[int, Request]] = []
    at = 0
    for index, request in enumerate(load):
        at += gaps[index] if gaps else 0
        due.append((at, request))
    events = iter(script or ())
    for now in range(STEP_LIMIT):
        while due and due[0][0] <= now:
            harness.add(due.pop(0)[1])
        harness.disturb(next(events, Disturbance()))
        if harness.scheduler.has_work:
            harness.step()
        elif not due:
            harness.scheduler.check_idle()
            return harness.run
    raise AssertionError("the load never ended")


def expected(request: Request) -> list[int]:
    return reference_output(request, vocab_size=VOCAB, max_total=MAX_REQUEST_TOKENS, eos=EOS)


@THOROUGH
@given(config=configs(), load=requests(), gaps=arrivals())
def test_outputs_depend_on_the_request_alone(
    config: EngineConfig, load: tuple[Request, ...], gaps: list[int]
) -> None:
    run = drive(config, load, gaps)
    event(f"preempted: {bool(run.preemptions)}")
    event(f"batched: {run.most_in_step > 1}")
    assert run.tokens == {request.request_id: expected(request) for request in load}
    assert set(run.ends) == set(run.tokens)
    assert set(run.ends.values()) <= {FinishReason.STOP, FinishReason.LENGTH}


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
        whole, got = expected(request), run.tokens[request.request_id]
        if run.ends[request.request_id] is FinishReason.ABORT:
            assert got == whole[: len(got)]
        else:
            assert got == whole


def test_a_full_pool_preempts_often_and_loses_no_token() -> None:
    """The property above means little unless preemption happens: here it must."""
    load = tuple(
        Request(
            request_id=index,
            prompt_token_ids=(index + 1,) * 4,
            sampling=SamplingParams(seed=index, max_tokens=30, ignore_eos=True),
        )
        for index in range(10)
    )
    config = engine_config(
        max_model_len=MAX_REQUEST_TOKENS,
        block_size=4,
        num_kv_blocks=20,
        vocab_size=VOCAB,
        eos_token_ids=tuple(EOS),
    )
    run = drive(config, load)
    assert run.preemptions >= 5
    assert run.tokens == {request.request_id: expected(request) for request in load}
