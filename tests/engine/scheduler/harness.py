"""Drives a scheduler on a paging executor and checks every step as it is decided."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from paceline_engine.config import EngineConfig, budget_floor
from paceline_engine.message import TokenLogprobs, TokenOutput
from paceline_engine.request import FinishReason, Request, Tier
from paceline_engine.scheduler.fair_queue import FairQueue
from paceline_engine.scheduler.output import ScheduledChunk, SchedulerOutput
from paceline_engine.scheduler.running import MAX_PREEMPTIONS
from paceline_engine.scheduler.scheduler import Scheduler
from paceline_engine.scheduler.sequence import Sequence
from tests.engine.scheduler.paged_executor import PagedExecutor, reference_output

STEP_S = 0.01
STEP_LIMIT = 5000


@dataclass(frozen=True)
class Disturbance:
    """What happens before a step besides arrivals."""

    aborts: tuple[int, ...] = ()
    budget: int | None = None
    running: int | None = None
    target_ms: float | None = None
    purge: bool = False


@dataclass
class Run:
    """What one run of the scheduler gave."""

    tokens: dict[int, list[int]] = field(default_factory=dict)
    ends: dict[int, FinishReason] = field(default_factory=dict)
    logprobs: dict[int, list[TokenLogprobs]] = field(default_factory=dict)
    prompt_logprobs: dict[int, tuple[TokenLogprobs, ...]] = field(default_factory=dict)
    preemptions: Counter[int] = field(default_factory=Counter)
    copies: int = 0
    most_in_step: int = 0


class Harness:
    """One scheduler on a clock of `STEP_S` a step."""

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        self.scheduler = Scheduler(config)
        self.executor = PagedExecutor(config.block_size, config.vocab_size)
        self.run = Run()
        self.now_s = 0.0
        self._step_id = 0
        self._known: dict[int, Sequence] = {}

    def add(self, request: Request) -> None:
        self.scheduler.add(request, self.now_s)
        sequence = self.scheduler.roster.find(request.request_id)
        assert sequence is not None
        self._known[request.request_id] = sequence
        self.run.tokens[request.request_id] = []
        self.run.logprobs[request.request_id] = []

    def disturb(self, disturbance: Disturbance) -> None:
        self.scheduler.abort(disturbance.aborts, self.now_s)
        for request_id in disturbance.aborts:
            if request_id in self.run.tokens:
                self.run.ends.setdefault(request_id, FinishReason.ABORT)
        self.scheduler.limits.apply(
            max_num_batched_tokens=disturbance.budget,
            max_num_running_seqs=disturbance.running,
            step_time_target_ms=disturbance.target_ms,
        )
        if disturbance.purge:
            purged = self.scheduler.pool.purge(self.now_s)
            self.executor.wipe(purged.block_ids)

    def step(self) -> SchedulerOutput:
        before = {s.request_id: s for s in self.waiting}
        running_before = self.scheduler.num_running
        step = self.scheduler.schedule(self.now_s)
        self.check(step, running_before)
        self.check_order(before, step)
        self.check_pool()
        result = self.executor.execute(step)
        self.now_s += STEP_S
        self.scheduler.observe(step, 1e-3 + 1e-4 * step.num_tokens)
        for output in self.scheduler.update(result, self.now_s):
            self.collect(output)
        self.check_pool()
        self.run.preemptions.update(step.preempted)
        self.run.copies += len(step.copies)
        self.run.most_in_step = max(self.run.most_in_step, len(step.chunks))
        return step

    @property
    def waiting(self) -> list[Sequence]:
        """Queued requests, in no order; those beside their parent are not among them."""
        return list(self.queue)

    @property
    def queue(self) -> FairQueue:
        """The scheduler's."""
        return self.scheduler.roster.queue

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
        kinds = [chunk.is_decode for chunk in step.chunks]
        assert kinds == sorted(kinds, reverse=True), "decodes come first"
        assert self.scheduler.num_running <= max(limits.max_num_running_seqs, running_before)
        decodes = {chunk.request_id for chunk in step.chunks if chunk.is_decode}
        for sequence in self.scheduler.roster.running:
            assert sequence.is_prefilling or sequence.request_id in decodes, "every decode runs"
        self.check_decodes(step.chunks)
        self.check_blocks(step.chunks)

    def check_decodes(self, chunks: tuple[ScheduledChunk, ...]) -> None:
        """Each is what is known of its request, said in full."""
        decodes = {chunk.request_id: chunk for chunk in chunks if chunk.is_decode}
        for sequence in self.scheduler.roster.running:
            if (chunk := decodes.pop(sequence.request_id, None)) is None:
                continue
            assert chunk.start == sequence.num_computed == len(sequence.token_ids) - 1
            assert list(chunk.token_ids) == sequence.token_ids[-1:]
            assert (chunk.history, chunk.num_prompt_tokens) == (
                sequence.token_ids,
                sequence.num_prompt_tokens,
            )
            assert chunk.sampling is sequence.request.sampling
            assert chunk.samples
            assert chunk.block_ids == self.scheduler.pool.table(chunk.request_id)
        assert not decodes

    def check_blocks(self, chunks: tuple[ScheduledChunk, ...]) -> None:
        holders = Counter(block for chunk in chunks for block in chunk.block_ids)
        for chunk in chunks:
            assert len(chunk.block_ids) == -(-chunk.end // self.config.block_size)
            assert chunk.samples or not chunk.is_decode
            for block in chunk.block_ids[chunk.start // self.config.block_size :]:
                assert holders[block] == 1, "nobody else reads what a step writes"

    def check_order(self, before: dict[int, Sequence], step: SchedulerOutput) -> None:
        """Of those that got in, none overtook a due one of its tier or an older one of its kind.

        Who waits for protected requests may be overtaken, due or not.
        """
        passed = {*step.preempted, *(s.request_id for s in self.queue.all_set_aside())}
        still = [s for s in self.waiting if s.request_id not in passed]
        for sequence in self.scheduler.roster.running:
            if sequence.request_id not in before:
                continue
            for other in still:
                if tier(other) is tier(sequence) and other.ticket.due_s <= self.now_s:
                    assert due(other) > due(sequence)
                if kind(other) == kind(sequence):
                    assert other.ticket.arrival > sequence.ticket.arrival

    def check_pool(self) -> None:
        pool, roster = self.scheduler.pool, self.scheduler.roster
        pool.check_integrity()
        assert pool.num_free + pool.num_cached + pool.num_held == self.config.num_kv_blocks
        queued = sum(s.queued_tokens for s in roster.queue)
        assert self.scheduler.waiting_tokens == queued + len(roster.forks)
        assert self.scheduler.num_waiting == len(roster.queue) + len(roster.forks)
        assert self.scheduler.num_running == sum(map(roster.num_running, Tier))

    def collect(self, output: TokenOutput) -> None:
        request_id, run = output.request_id, self.run
        assert request_id not in run.ends, "output after the end"
        is_first = not run.tokens[request_id] and output.queue_s is not None
        assert (output.cached_tokens is not None) == is_first
        if output.prompt_logprobs:
            assert request_id not in run.prompt_logprobs, "told twice"
            run.prompt_logprobs[request_id] = output.prompt_logprobs
        run.tokens[request_id].extend(output.token_ids)
        run.logprobs[request_id].extend(output.logprobs)
        if output.finish_reason is not None:
            run.ends[request_id] = output.finish_reason


def tier(sequence: Sequence) -> Tier:
    return sequence.request.tier


def due(sequence: Sequence) -> tuple[float, int]:
    return sequence.ticket.due_s, sequence.ticket.arrival


def kind(sequence: Sequence) -> tuple[object, ...]:
    """What is the same among equals."""
    request = sequence.request
    return request.tier, request.tenant, sequence.ticket.deadline_s


def drive(
    config: EngineConfig,
    load: tuple[Request, ...],
    gaps: list[int] | None = None,
    script: list[Disturbance] | None = None,
) -> Run:
    """Runs the load to its end; request i arrives `gaps[i]` steps after request i - 1."""
    harness = Harness(config)
    arrivals: list[tuple[int, Request]] = []
    at = 0
    for index, request in enumerate(load):
        at += gaps[index] if gaps else 0
        arrivals.append((at, request))
    events = iter(script or ())
    for now in range(STEP_LIMIT):
        while arrivals and arrivals[0][0] <= now:
            harness.add(arrivals.pop(0)[1])
        harness.disturb(next(events, Disturbance()))
        if harness.scheduler.has_work:
            harness.step()
        elif not arrivals:
            harness.scheduler.check_idle()
            assert max(harness.run.preemptions.values(), default=0) <= MAX_PREEMPTIONS
            return harness.run
    raise AssertionError("the load never ended")


def expected(request: Request, config: EngineConfig) -> list[int]:
    """What a request must answer, whatever runs beside it."""
    return reference_output(
        request,
        vocab_size=config.vocab_size,
        max_total=config.max_request_tokens,
        eos=frozenset(config.eos_token_ids),
    )
