"""Continuous batching: which tokens of which requests run in the next step.

`schedule` fills one token budget: all running decodes first, then prefill, divided between
tiers by weight where both want it, then whoever may come in. `update` applies what the runner
produced. The loop in `paceline_engine.engine` alternates the two; aborts and live limits come
in between. Time is an argument throughout.

Who comes in is decided by `FairQueue`, whether there is room by `Admission`, who yields by
`RunningSet`. Every step with work makes progress: the budget holds every decode and a token
more, the first of the running is never the victim of another, and with nothing running the
head of the queue always fits.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from paceline_engine.config import EngineConfig
from paceline_engine.kvcache.block_pool import BlockPool, KvIntegrityError
from paceline_engine.message import TokenOutput
from paceline_engine.request import FinishReason, Request, Tier
from paceline_engine.scheduler.admission import Admission
from paceline_engine.scheduler.limits import LiveLimits
from paceline_engine.scheduler.output import ScheduledChunk, SchedulerOutput
from paceline_engine.scheduler.plan import StepPlan, StepTarget
from paceline_engine.scheduler.prefill import Prefill
from paceline_engine.scheduler.result import StepResult
from paceline_engine.scheduler.roster import Roster
from paceline_engine.scheduler.sequence import Sequence, Ticket
from paceline_engine.scheduler.step_time import StepLoad, StepTimeModel


class RequestRefusedError(ValueError):
    """The request can never run here; the text says why in one line."""


class RunnerContractError(RuntimeError):
    """The runner did not answer for exactly the chunks that sample."""


class Scheduler:
    """Owns all requests and the block accounting of one engine.

    Args:
        config: Sizes, ceilings and start values.

    Attributes:
        limits: The live knobs; change them between steps only.
        roster: All requests, for their numbers.
        pool: KV accounting.
    """

    def __init__(self, config: EngineConfig) -> None:
        self.limits = LiveLimits(config)
        self.roster = Roster(config)
        self.pool: BlockPool = self.roster.pool
        self._config = config
        self._eos_token_ids = frozenset(config.eos_token_ids)
        self._max_wait_s = {
            Tier.INTERACTIVE: config.interactive_max_wait_s,
            Tier.BATCH: config.batch_max_wait_s,
        }
        self._queue, self._running = self.roster.queue, self.roster.running
        self._admission = Admission(self._queue, self._running, self.pool, self.limits)
        self._prefill = Prefill(self.roster, self._admission)
        self._step_time = StepTimeModel()
        self._arrivals = 0
        self._next_step_id = 0
        self._in_flight: SchedulerOutput | None = None

    @property
    def num_running(self) -> int:
        """Requests that hold KV blocks."""
        return len(self._running)

    @property
    def num_waiting(self) -> int:
        """Requests that wait: new, preempted, or beside their parent."""
        return sum(map(self.roster.num_waiting, Tier))

    @property
    def waiting_tokens(self) -> int:
        """Tokens to compute before every waiting request draws its next token."""
        return sum(map(self.roster.waiting_tokens, Tier))

    @property
    def has_work(self) -> bool:
        """Whether a step would run something."""
        return bool(self._running or self._queue)

    def add(self, request: Request, now_s: float) -> None:
        """Queues a request.

        Raises:
            RequestRefusedError: Empty, larger than the engine can ever hold, or its id is taken.
        """
        prompt_tokens, most = len(request.prompt_token_ids), self._config.max_request_tokens
        if not 0 < prompt_tokens < most:
            raise RequestRefusedError(
                f"a prompt of {prompt_tokens} tokens does not fit: 1 to "
                f"{most - 1} leave room for output"
            )
        if self.roster.find(request.request_id) is not None:
            raise RequestRefusedError(f"request id {request.request_id} is in use")
        ticket = self._ticket(request, now_s)
        self.roster.add(Sequence(request, most, self._eos_token_ids, ticket))

    def abort(self, request_ids: Iterable[int], now_s: float) -> None:
        """Drops requests wherever they are; unknown ids are ignored."""
        self.roster.abort(request_ids, now_s)

    def schedule(self, now_s: float) -> SchedulerOutput:
        """Decides the next step; without chunks only if there is no work."""
        budget = self.limits.budget(len(self._running))
        plan = StepPlan(self._next_step_id, budget, now_s, self.pool, self._target())
        self._next_step_id += 1
        self.pool.expire(now_s)
        if (victim := self._admission.victim(now_s)) is not None:
            self._preempt(victim, plan)
        self._prefill.add(plan, self._add_decodes(plan))
        self._in_flight = plan.finish()
        return self._in_flight

    def update(self, result: StepResult, now_s: float) -> tuple[TokenOutput, ...]:
        """Applies the results of the step decided last.

        Returns:
            What each request got; nothing for requests aborted meanwhile.

        Raises:
            RunnerContractError: A sampling chunk has no result, or a result has no chunk.
        """
        drawn, broken = dict(result.sampled), dict(result.failed)
        step, self._in_flight = self._in_flight, None
        chunks = step.chunks if step else ()
        _check_answers(chunks, drawn, broken)
        outputs: list[TokenOutput] = []
        for chunk in chunks:
            if (sequence := self._running.get(chunk.request_id)) is None:
                continue
            if chunk.request_id in broken:
                sequence.num_computed = chunk.end
                continue
            self._advance(sequence, chunk, result)
            if (token_id := drawn.get(chunk.request_id)) is not None:
                outputs.append(self._append(sequence, token_id, result, now_s))
        for request_id, reason in broken.items():
            if (failed := self.roster.end(request_id, now_s, keep=False)) is not None:
                fault = result.faults.get(request_id)
                output = TokenOutput(request_id, (), FinishReason.ERROR, error=reason, fault=fault)
                outputs.append(failed.tell(output))
        return tuple(outputs)

    def observe(self, step: SchedulerOutput, duration_s: float) -> None:
        """Learns how long a step took; what keeps the step-time target follows from it."""
        if step.prefill_tokens:
            self._step_time.observe(StepLoad.of(step), 1e3 * duration_s)

    def check_idle(self) -> None:
        """Counts blocks while there is no work.

        Raises:
            KvIntegrityError: Blocks leaked.
        """
        self.pool.check_integrity()
        self.pool.check_empty()

    def _ticket(self, request: Request, now_s: float) -> Ticket:
        self._arrivals += 1
        deadline_s = request.deadline_s
        return Ticket(
            arrival=self._arrivals,
            received_s=now_s,
            due_s=now_s + self._max_wait_s[request.tier],
            deadline_s=inf if deadline_s is None else now_s + deadline_s,
        )

    def _target(self) -> StepTarget | None:
        target_ms = self.limits.step_time_target_ms
        if not target_ms:
            return None
        return StepTarget(self._step_time, target_ms, self._config.budget_step)

    def _add_decodes(self, plan: StepPlan) -> list[Sequence]:
        """Takes a token of every running decode; returns who prefills instead."""
        prefilling: list[Sequence] = []
        for sequence in tuple(self._running):
            if sequence.is_prefilling:
                prefilling.append(sequence)
                continue
            end = sequence.num_computed + 1
            if end > sequence.capacity and not self._make_room(sequence, end, plan):
                continue
            if tokens := sequence.bill_decode():
                self._queue.charge_ahead(sequence, tokens)
            plan.add_decode(sequence)
        plan.end_decodes()
        return [sequence for sequence in prefilling if sequence.is_prefilling]

    def _make_room(self, sequence: Sequence, end: int, plan: StepPlan) -> bool:
        """Gets the block for one more token; False if `sequence` itself has had to yield."""
        if self._running.get(sequence.request_id) is None:
            return False
        while not self.pool.grow(sequence.request_id, end):
            plan.is_short = True
            victim = self._running.victim()
            if victim is None:
                raise KvIntegrityError(f"request {sequence.request_id} lacks a block it may claim")
            self._preempt(victim, plan)
            if victim is sequence:
                return False
        sequence.capacity += self.pool.block_size
        return True

    def _preempt(self, victim: Sequence, plan: StepPlan) -> None:
        self.roster.preempt(victim, plan.now_s)
        plan.preempted.append(victim.request_id)

    def _advance(self, sequence: Sequence, chunk: ScheduledChunk, result: StepResult) -> None:
        """Counts a chunk as computed, for others to find and to fork."""
        size, start = self.pool.block_size, chunk.start
        sequence.num_computed = end = start + len(chunk.token_ids)
        if end // size != start // size:
            self.pool.fill(chunk.request_id, sequence.token_ids, end)
        if start >= chunk.num_prompt_tokens:
            return
        if (logprobs := result.prompt_logprobs.get(chunk.request_id)) is not None:
            sequence.add_prompt_logprobs(start, logprobs)
        if end >= chunk.num_prompt_tokens:
            self.roster.release_children(chunk.request_id)

    def _append(
        self, sequence: Sequence, token_id: int, result: StepResult, now_s: float
    ) -> TokenOutput:
        request_id, reason = sequence.request_id, sequence.append(token_id)
        if reason is not None:
            self.roster.end(request_id, now_s)
        if reason is FinishReason.STOP:
            output = TokenOutput(request_id, (), reason, stop_token_id=token_id)
        elif (logprobs := result.logprobs.get(request_id)) is not None:
            output = TokenOutput(request_id, (token_id,), reason, logprobs=(logprobs,))
        else:
            output = TokenOutput(request_id, (token_id,), reason)
        return output if sequence.is_answered else sequence.tell(output)


def _check_answers(
    chunks: Iterable[ScheduledChunk], drawn: dict[int, int], broken: dict[int, str]
) -> None:
    answered = len(drawn) + len(broken)
    for chunk in chunks:
        is_drawn = chunk.samples and chunk.request_id in drawn
        if is_drawn or chunk.request_id in broken:
            answered -= 1
        elif chunk.samples:
            raise RunnerContractError(f"request {chunk.request_id} got no token")
    if answered:
        raise RunnerContractError("a result belongs to no chunk of the step, or to two")
