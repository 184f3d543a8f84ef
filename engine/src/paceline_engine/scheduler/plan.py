"""One step while it is being put together: chunks taken and budget left."""

from __future__ import annotations

from collections.abc import Sequence as Ids

from paceline_engine.scheduler.output import ScheduledChunk, SchedulerOutput
from paceline_engine.scheduler.sequence import Sequence


class StepPlan:
    """Collects chunks until the budget is used.

    Args:
        step_id: Number of the step.
        budget: Tokens the step may hold.
    """

    def __init__(self, step_id: int, budget: int) -> None:
        self.left = budget
        self.preempted: list[int] = []
        self._step_id = step_id
        self._budget = budget
        self._chunks: list[ScheduledChunk] = []
        self._started: list[int] = []

    def add_decode(self, sequence: Sequence, block_ids: Ids[int]) -> None:
        """Takes the one token of `sequence` that is known and not computed."""
        self._chunks.append(
            ScheduledChunk(
                request_id=sequence.request.request_id,
                token_ids=(sequence.token_ids[-1],),
                start=sequence.num_computed,
                block_ids=block_ids,
                is_decode=True,
                samples=True,
                sampling=sequence.request.sampling,
                history=sequence.token_ids,
                num_prompt_tokens=len(sequence.request.prompt_token_ids),
            )
        )
        self.left -= 1

    def add_prefill(self, sequence: Sequence, length: int, block_ids: Ids[int]) -> None:
        """Takes the next `length` tokens of text known at admission."""
        start = sequence.num_computed
        self._chunks.append(
            ScheduledChunk(
                request_id=sequence.request_id,
                token_ids=sequence.token_ids[start : start + length],
                start=start,
                block_ids=block_ids,
                is_decode=False,
                samples=start + length == sequence.prefill_end,
                sampling=sequence.request.sampling,
                history=sequence.token_ids,
                num_prompt_tokens=len(sequence.request.prompt_token_ids),
            )
        )
        self.left -= length
        if not sequence.has_run:
            sequence.has_run = True
            self._started.append(sequence.request_id)

    def finish(self) -> SchedulerOutput:
        """The step as immutable data."""
        return SchedulerOutput(
            step_id=self._step_id,
            chunks=tuple(self._chunks),
            budget=self._budget,
            preempted=tuple(self.preempted),
            started=tuple(self._started),
        )
