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

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
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
        self._decoding: list[Sequence] = []  # of the step in flight, as its chunks are
        self._all_run = True  # none of them has been aborted since

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
        self._all_run = False
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
        sampled, broken = tuple(result.sampled), dict(result.failed)
        step, self._in_flight = self._in_flight, None
        decoding, self._decoding = self._decoding, []
        chunks = step.chunks if step else ()
        outputs: list[TokenOutput] = []
        if _is_plain(chunks, sampled, result):
            outputs = self._apply_decodes(decoding, sampled, result, now_s)
            chunks, sampled = chunks[len(decoding) :], sampled[len(decoding) :]
        else:
            _check_answers(chunks, sampled, broken)
        drawn = dict(sampled)
        for chunk in chunks:
            if (sequence := self._running.get(chunk.request_id)) is None:
                continue
            if chunk.request_id in broken:
                sequence.num_computed = chunk.end
                continue
            self._advance(sequence, chunk, result)
            if (token_id := drawn.get(chunk.request_id)) is not None:
                outputs.append(self._append(sequence, token_id, result, now_s))
        return (*outputs, *self._end_broken(broken, result, now_s))

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
        received_s = now_s if request.received_s is None else min(now_s, request.received_s)
        return Ticket(
            arrival=self._arrivals,
            received_s=received_s,
            due_s=received_s + self._max_wait_s[request.tier],
            deadline_s=inf if deadline_s is None else received_s + deadline_s,
        )

    def _target(self) -> StepTarget | None:
        target_ms = self.limits.step_time_target_ms
        if not target_ms:
            return None
        return StepTarget(self._step_time, target_ms, self._config.budget_step)

    def _add_decodes(self, plan: StepPlan) -> list[Sequence]:
        """Takes a token of every running decode; returns who prefills instead."""
        prefilling: list[Sequence] = []
        self._decoding = [
            each
            for each in tuple(self._running)
            if each.num_computed < each.quiet_until or self._may_decode(each, plan, prefilling)
        ]
        self._all_run = True
        plan.add_decodes(self._decoding)
        return [sequence for sequence in prefilling if sequence.is_prefilling]

    def _may_decode(self, sequence: Sequence, plan: StepPlan, prefilling: list[Sequence]) -> bool:
        """Gets what the next token needs; False for who prefills or has had to yield."""
        if sequence.is_prefilling:
            prefilling.append(sequence)
            return False
        end = sequence.num_computed + 1
        if end > sequence.capacity and not self._make_room(sequence, end, plan):
            return False
        self._queue.charge_ahead(sequence, sequence.bill_decode())
        sequence.rest()
        return True

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

    def _apply_decodes(
        self,
        decoding: list[Sequence],
        sampled: tuple[tuple[int, int], ...],
        result: StepResult,
        now_s: float,
    ) -> list[TokenOutput]:
        """What `_advance` and `_append` do, for the decodes of a step that is plain.

        There are hundreds of them in a step, so each does as little as can be.
        """
        running, size, all_run = self._running.get, self.pool.block_size, self._all_run
        outputs: list[TokenOutput] = []
        for sequence, (request_id, token_id) in zip(decoding, sampled, strict=False):
            if not all_run and running(request_id) is not sequence:
                continue
            sequence.num_computed = end = sequence.num_computed + 1
            if end < sequence.quiet_until and token_id not in sequence.end_ids:
                sequence.token_ids.append(token_id)
                sequence.tail = tail = (token_id,)
                outputs.append(TokenOutput(request_id, tail))
                continue
            if not end % size:
                self.pool.fill(request_id, sequence.token_ids, end)
            outputs.append(self._append(sequence, token_id, result, now_s))
        return outputs

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

    def _end_broken(
        self, broken: Mapping[int, str], result: StepResult, now_s: float
    ) -> Iterator[TokenOutput]:
        for request_id, reason in broken.items():
            if (failed := self.roster.end(request_id, now_s, keep=False)) is not None:
                fault = result.faults.get(request_id)
                output = TokenOutput(request_id, (), FinishReason.ERROR, error=reason, fault=fault)
                yield failed.tell(output)

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


def _is_plain(
    chunks: tuple[ScheduledChunk, ...], sampled: tuple[tuple[int, int], ...], result: StepResult
) -> bool:
    """Whether each chunk that samples got its token, in order, and nothing else is told."""
    if result.failed or result.logprobs:
        return False
    asked = [chunk.request_id for chunk in chunks if chunk.samples]
    return asked == [request_id for request_id, _ in sampled]


def _check_answers(
    chunks: Iterable[ScheduledChunk], sampled: Iterable[tuple[int, int]], broken: Iterable[int]
) -> None:
    """Compares who was asked with who answered, in any order.

    Raises:
        RunnerContractError: They differ, or one answered twice.
    """
    answers = Counter([*(request_id for request_id, _ in sampled), *broken])
    asked = {chunk.request_id: chunk.samples for chunk in chunks}
    for request_id, samples in asked.items():
        if samples and request_id not in answers:
            raise RunnerContractError(f"request {request_id} got no token")
    may_answer = {each for each, samples in asked.items() if samples}.union(broken)
    if any(
        count > 1 or each not in asked or each not in may_answer for each, count in answers.items()
    ):
        raise RunnerContractError("a result belongs to no chunk of the step, or to two")
