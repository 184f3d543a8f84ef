"""One step while it is being put together: chunks taken and budget left."""

from __future__ import annotations

from dataclasses import dataclass

from paceline_engine.kvcache.block_pool import BlockPool
from paceline_engine.scheduler.output import ScheduledChunk, SchedulerOutput
from paceline_engine.scheduler.sequence import Sequence
from paceline_engine.scheduler.step_time import StepLoad, StepTimeModel


@dataclass(frozen=True, slots=True)
class StepTarget:
    """The step time to keep.

    Attributes:
        model: Predicts it.
        target_ms: What to keep.
        least: Prefill tokens a step may hold whatever the model says, so that all advance.
    """

    model: StepTimeModel
    target_ms: float
    least: int

    def longest(self, load: StepLoad, start: int) -> int:
        """Tokens that a chunk from position `start` may have beside `load`."""
        fitting = self.model.longest_chunk(load, start, self.target_ms)
        return max(fitting, self.least - load.prefill_tokens)


class StepPlan:
    """Collects decodes, then prefill, until the budget or the time is used.

    Args:
        step_id: Number of the step.
        budget: Tokens the step may hold.
        now_s: Time of scheduling.
        pool: Knows the block tables.
        target: Step time to keep, if any.

    Attributes:
        left: Tokens of the budget not used yet.
        preempted: Requests whose blocks were taken back.
        copies: Blocks to copy before anything is computed.
        is_short: A running request lacked a block: nobody may be admitted.
    """

    def __init__(
        self,
        step_id: int,
        budget: int,
        now_s: float,
        pool: BlockPool,
        target: StepTarget | None = None,
    ) -> None:
        self.left = budget
        self.now_s = now_s
        self.preempted: list[int] = []
        self.copies: list[tuple[int, int]] = []
        self.is_short = False
        self._step_id = step_id
        self._budget = budget
        self._pool = pool
        self._target = target
        self._chunks: list[ScheduledChunk] = []
        self._started: list[int] = []
        self._prefills: dict[Sequence, int] = {}
        self._load = StepLoad()

    def add_decodes(self, sequences: list[Sequence]) -> None:
        """Takes the one token of each that is known and not computed; then comes prefill.

        Their tables cover that token and not a block more.
        """
        self._chunks = [
            ScheduledChunk(
                request_id=each.request_id,
                token_ids=each.tail,
                start=each.num_computed,
                block_ids=each.block_ids,
                is_decode=True,
                samples=True,
                sampling=each.sampling,
                history=each.token_ids,
                num_prompt_tokens=each.num_prompt_tokens,
            )
            for each in sequences
        ]
        self.left -= len(sequences)
        if self._target:
            kv_tokens = sum(chunk.end for chunk in self._chunks)
            self._load = StepLoad(decode_rows=len(self._chunks), kv_tokens=kv_tokens)

    def room(self) -> int:
        """Tokens that the chunk of a request without context could have."""
        if self._target is None or not self.left:
            return self.left
        return max(0, min(self.left, self._target.longest(self._load, 0)))

    def add_prefill(self, sequence: Sequence, limit: int) -> int:
        """Takes up to `limit` more tokens of text known at admission; returns how many."""
        taken = self._prefills.get(sequence, 0)
        length = min(sequence.num_remaining - taken, self.left, limit)
        if length > 0 and self._target:
            length = min(length, self._longest(self._target, sequence, taken) - taken)
        if length <= 0:
            return 0
        if not sequence.has_run:
            sequence.start(self.now_s)
            self._started.append(sequence.request_id)
        self._prefills[sequence] = taken + length
        self._load = self._load.with_chunk(sequence.num_computed, taken + length, instead_of=taken)
        self.left -= length
        return length

    def end_of(self, sequence: Sequence) -> int:
        """Position up to which a request is computed after this step."""
        return sequence.num_computed + self._prefills.get(sequence, 0)

    def finish(self) -> SchedulerOutput:
        """The step as immutable data."""
        prefills = (self._prefill(each, length) for each, length in self._prefills.items())
        return SchedulerOutput(
            step_id=self._step_id,
            chunks=(*self._chunks, *prefills),
            budget=self._budget,
            preempted=tuple(self.preempted),
            started=tuple(self._started),
            copies=tuple(self.copies),
            wipes=self._pool.take_wipes(),
        )

    def _longest(self, target: StepTarget, sequence: Sequence, taken: int) -> int:
        start = sequence.num_computed
        others = self._load.with_chunk(start, 0, instead_of=taken) if taken else self._load
        return target.longest(others, start)

    def _prefill(self, sequence: Sequence, length: int) -> ScheduledChunk:
        start = sequence.num_computed
        end = start + length
        return ScheduledChunk(
            request_id=sequence.request_id,
            token_ids=sequence.token_ids[start:end],
            start=start,
            block_ids=sequence.block_ids[: -(-end // self._pool.block_size)],
            is_decode=False,
            samples=end == len(sequence.token_ids),
            sampling=sequence.request.sampling,
            history=sequence.token_ids,
            num_prompt_tokens=sequence.num_prompt_tokens,
        )
