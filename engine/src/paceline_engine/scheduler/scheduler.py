"""Continuous batching: which tokens of which requests run in the next step.

`schedule` fills one token budget: decodes first in order of admission, then prefill chunks
first come, first served. `update` applies what the runner produced. The loop in
`paceline_engine.engine` alternates the two; aborts and live limits come in between.

Order is by arrival throughout: whoever runs arrived before whoever waits, because only the
head of the queue is admitted and only the latest runner is preempted, back to the head.
Hence the oldest runner is never preempted and every step makes progress.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from paceline_engine.config import EngineConfig
from paceline_engine.kvcache.block_pool import BlockPool
from paceline_engine.message import TokenOutput
from paceline_engine.request import FinishReason, Request
from paceline_engine.scheduler.limits import LiveLimits
from paceline_engine.scheduler.output import SchedulerOutput
from paceline_engine.scheduler.plan import StepPlan
from paceline_engine.scheduler.sequence import Sequence


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
        pool: KV accounting.
    """

    def __init__(self, config: EngineConfig) -> None:
        self.limits = LiveLimits(config)
        self.pool = BlockPool(config.num_kv_blocks, config.block_size)
        self._max_request_tokens = config.max_request_tokens
        self._eos_token_ids = frozenset(config.eos_token_ids)
        self._waiting: OrderedDict[int, Sequence] = OrderedDict()
        self._running: dict[int, Sequence] = {}
        self._waiting_tokens = 0
        self._next_step_id = 0
        self._in_flight: SchedulerOutput | None = None

    @property
    def num_running(self) -> int:
        """Requests that hold KV blocks."""
        return len(self._running)

    @property
    def num_waiting(self) -> int:
        """Requests queued, new or preempted."""
        return len(self._waiting)

    @property
    def waiting_tokens(self) -> int:
        """Tokens to compute before every waiting request draws its next token."""
        return self._waiting_tokens

    @property
    def has_work(self) -> bool:
        """Whether a step would run something."""
        return bool(self._running or self._waiting)

    def add(self, request: Request) -> None:
        """Queues a request at the tail.

        Raises:
            RequestRefusedError: Empty, larger than the engine can ever hold, or its id is taken.
        """
        prompt_tokens = len(request.prompt_token_ids)
        if not 0 < prompt_tokens < self._max_request_tokens:
            raise RequestRefusedError(
                f"a prompt of {prompt_tokens} tokens does not fit: 1 to "
                f"{self._max_request_tokens - 1} leave room for output"
            )
        if request.request_id in self._running or request.request_id in self._waiting:
            raise RequestRefusedError(f"request id {request.request_id} is in use")
        sequence = Sequence(request, self._max_request_tokens, self._eos_token_ids)
        self._waiting[request.request_id] = sequence
        self._waiting_tokens += sequence.num_remaining

    def abort(self, request_ids: Iterable[int]) -> None:
        """Drops requests wherever they are; unknown ids are ignored."""
        for request_id in request_ids:
            if waiting := self._waiting.pop(request_id, None):
                self._waiting_tokens -= waiting.num_remaining
            else:
                self._end(request_id)

    def schedule(self) -> SchedulerOutput:
        """Decides the next step; without chunks only if there is no work."""
        plan = StepPlan(self._next_step_id, self.limits.budget(len(self._running)))
        self._next_step_id += 1
        self._add_decodes(plan)
        self._add_prefills(plan)
        self._admit(plan)
        self._in_flight = plan.finish()
        return self._in_flight

    def update(
        self, sampled: Iterable[tuple[int, int]], failed: Iterable[tuple[int, str]] = ()
    ) -> tuple[TokenOutput, ...]:
        """Applies the results of the step decided last.

        Args:
            sampled: (request id, token id) for each chunk that samples and succeeded.
            failed: (request id, reason) for requests that failed alone.

        Returns:
            What each request got; nothing for requests aborted meanwhile.

        Raises:
            RunnerContractError: A sampling chunk has no result, or a result has no chunk.
        """
        drawn, broken = dict(sampled), dict(failed)
        self._advance(drawn, broken)
        outputs = [
            self._append(sequence, token_id)
            for request_id, token_id in drawn.items()
            if (sequence := self._running.get(request_id))
        ]
        for request_id, reason in broken.items():
            if self._end(request_id):
                outputs.append(TokenOutput(request_id, (), FinishReason.ERROR, error=reason))
        return tuple(outputs)

    def check_idle(self) -> None:
        """Counts blocks while there is no work.

        Raises:
            KvIntegrityError: Blocks leaked.
        """
        self.pool.check_integrity()
        self.pool.check_empty()

    def _add_decodes(self, plan: StepPlan) -> None:
        for sequence in tuple(self._running.values()):
            if sequence.is_prefilling or not plan.left:
                continue
            request_id = sequence.request_id
            if request_id in self._running and self._make_room(sequence, plan):
                plan.add_decode(sequence, self.pool.table(request_id))

    def _make_room(self, sequence: Sequence, plan: StepPlan) -> bool:
        """Gets the block for one more token; False if `sequence` itself had to yield."""
        while not self.pool.grow(sequence.request_id, sequence.num_computed + 1):
            victim = self._preempt_latest(plan)
            if victim is sequence:
                return False
        return True

    def _preempt_latest(self, plan: StepPlan) -> Sequence:
        request_id, victim = self._running.popitem()
        self.pool.release(request_id)
        victim.preempt()
        self._waiting[request_id] = victim
        self._waiting.move_to_end(request_id, last=False)
        self._waiting_tokens += victim.num_remaining
        plan.preempted.append(request_id)
        return victim

    def _add_prefills(self, plan: StepPlan) -> None:
        for sequence in self._running.values():
            if not plan.left:
                return
            if sequence.is_prefilling:
                self._add_prefill(sequence, plan)

    def _add_prefill(self, sequence: Sequence, plan: StepPlan) -> None:
        length = min(sequence.num_remaining, plan.left)
        covered = self.pool.blocks_for(sequence.num_computed + length)
        plan.add_prefill(sequence, length, self.pool.table(sequence.request_id)[:covered])

    def _admit(self, plan: StepPlan) -> None:
        if plan.preempted:
            return  # what was just taken back would be given out again at once
        while self._waiting and plan.left and self.num_running < self.limits.max_num_running_seqs:
            request_id, sequence = next(iter(self._waiting.items()))
            if not self._has_room(sequence):
                return
            del self._waiting[request_id]
            self._waiting_tokens -= sequence.num_remaining
            self._running[request_id] = sequence
            self.pool.grow(request_id, len(sequence.token_ids))
            sequence.admit()
            self._add_prefill(sequence, plan)

    def _has_room(self, sequence: Sequence) -> bool:
        """Whether all known text fits and every runner could still grow by one block.

        Blocks for the whole prompt are taken at admission, so prefill never preempts; the
        spare block per runner keeps a full pool from admitting only to preempt.
        """
        needed = self.pool.blocks_for(len(sequence.token_ids))
        return needed + self.num_running <= self.pool.num_free

    def _advance(self, drawn: dict[int, int], broken: dict[int, str]) -> None:
        step, self._in_flight = self._in_flight, None
        answered = len(drawn) + len(broken)
        for chunk in step.chunks if step else ():
            if sequence := self._running.get(chunk.request_id):
                sequence.num_computed = chunk.end
            if chunk.request_id in drawn or chunk.request_id in broken:
                answered -= 1
            elif chunk.samples:
                raise RunnerContractError(f"request {chunk.request_id} got no token")
        if answered:
            raise RunnerContractError("a result belongs to no chunk of the step, or to two")

    def _append(self, sequence: Sequence, token_id: int) -> TokenOutput:
        finish_reason = sequence.append(token_id)
        if finish_reason is not None:
            self._end(sequence.request_id)
        shown = () if finish_reason is FinishReason.STOP else (token_id,)
        return TokenOutput(sequence.request_id, shown, finish_reason)

    def _end(self, request_id: int) -> bool:
        if self._running.pop(request_id, None) is None:
            return False
        self.pool.release(request_id)
        return True
