"""One step while it is being put together: chunks taken and budget left."""

from __future__ import annotations

from paceline_operator.simulator.engine.sequence import Sequence
from paceline_operator.simulator.engine.step_time import StepLoad, StepTimeTarget


class StepPlan:
    """Collects prefill beside the decodes, until the budget or the time is used.

    Args:
        now_s: Time of scheduling.
        budget: Tokens the step may hold.
        target: Step time to keep; None for none.

    Attributes:
        left: Tokens of the budget not used yet.
        is_short: A running request lacked a block: nobody may be let in.
        preempted: Requests whose blocks were taken back.
        chunks: Prefill tokens of each request that has some.
        load: What the step holds.
    """

    __slots__ = (
        "_room", "budget", "chunks", "is_short", "left", "load", "now_s", "preempted", "target",
    )  # fmt: skip

    def __init__(self, now_s: float, budget: int, target: StepTimeTarget | None) -> None:
        self.now_s = now_s
        self.budget = budget
        self.target = target
        self.left = budget
        self.is_short = False
        self.preempted: list[Sequence] = []
        self.chunks: dict[Sequence, int] = {}
        self.load = StepLoad()
        self._room: int | None = None

    @property
    def at_budget(self) -> bool:
        """Whether it holds as many tokens as it may."""
        return self.left <= 0

    def add_decodes(self, rows: int, kv_tokens: int) -> None:
        """Takes a token for each row; then comes prefill.

        Args:
            rows: How many.
            kv_tokens: Tokens they read, those of the step included.
        """
        self.left -= rows
        self.load = StepLoad(decode_rows=rows, kv_tokens=kv_tokens)
        self._room = None

    def room(self) -> int:
        """Tokens that the chunk of a request without context could have."""
        if self.target is None or not self.left:
            return self.left
        if self._room is None:
            self._room = max(0, min(self.left, self.target.longest(self.load, 0)))
        return self._room

    def extend(self, sequence: Sequence, limit: int) -> int:
        """Takes up to `limit` more tokens of text known at admission; returns how many."""
        taken, start = self.chunks.get(sequence, 0), sequence.computed
        length = min(sequence.known - start - taken, self.left, limit)
        if length > 0 and self.target:
            others = self.load.with_chunk(start, 0, taken) if taken else self.load
            length = min(length, self.target.longest(others, start) - taken)
        if length <= 0:
            return 0
        if not sequence.has_run:
            sequence.has_run = True
            sequence.served.started_s = self.now_s
        self.chunks[sequence] = taken + length
        self.load = self.load.with_chunk(start, taken + length, taken)
        self.left -= length
        self._room = None
        return length

    def end_of(self, sequence: Sequence) -> int:
        """Position up to which a request is computed after this step."""
        return sequence.computed + self.chunks.get(sequence, 0)
