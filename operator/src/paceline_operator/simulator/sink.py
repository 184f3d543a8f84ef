"""What a simulated engine tells of its work, and whom it tells."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Protocol

from paceline_operator.simulator.request import Request


@dataclass(slots=True, eq=False)
class Served:
    """One accepted request; the engine fills it in as it goes.

    Attributes:
        request: What the client sent.
        id: Number of the request, as it was submitted.
        received_s: When it was accepted.
        started_s: Beginning of the first step with a part of it; None until then.
        first_s: End of the step that gave its first token; None until then.
        last_s: The same of its last token so far; as of its first one until it has ended or
            was preempted.
        ended_s: When its answer was whole, or it was given up; infinite until then.
        tokens: Of its answer; right once it has ended.
        gaps: Between its tokens; right once it has ended.
        late_gaps: Of those, longer than each of the engine's ITL targets, in their order;
            right once it has ended.
        cached_tokens: Prompt tokens found in the prefix cache when it was first let in.
        preemptions: How often its KV blocks were taken back.
    """

    request: Request
    id: int
    received_s: float
    started_s: float | None = None
    first_s: float | None = None
    last_s: float | None = None
    ended_s: float = inf
    tokens: int = 0
    gaps: int = 0
    late_gaps: tuple[int, ...] = ()
    cached_tokens: int = 0
    preemptions: int = 0

    @property
    def queue_s(self) -> float | None:
        """How long it waited for its first step; None before that."""
        return None if self.started_s is None else self.started_s - self.received_s


class Sink(Protocol):
    """Takes what an engine tells, in the order of time.

    Of a step it is told first what the step was, then what came of it. Each decode row of a step
    is a gap between two tokens that took as long as the step.
    """

    def admitted(self, served: Served) -> None:
        """A request was accepted and waits."""

    def step(  # noqa: PLR0913 a record would cost every step
        self,
        *,
        end_s: float,
        seconds: float,
        prefill_tokens: int,
        interactive_rows: int,
        batch_rows: int,
        kv_tokens: int,
        chunk_context: int,
        at_budget: bool,
    ) -> None:
        """One step with prefill has ended.

        Args:
            end_s: When.
            seconds: How long it took.
            prefill_tokens: Prompt tokens computed, recomputed ones too.
            interactive_rows: Decode rows of the interactive tier.
            batch_rows: Of the batch tier.
            kv_tokens: KV tokens read: context of every row and chunk, itself included.
            chunk_context: Sum over prefill chunks of length x context at its end.
            at_budget: Whether it held as many tokens as it may.
        """

    def stretch(  # noqa: PLR0913 likewise
        self,
        *,
        start_s: float,
        steps: int,
        interactive_rows: int,
        batch_rows: int,
        kv_tokens: int,
        first_s: float,
        growth_s: float,
        at_budget: bool,
    ) -> None:
        """Steps without prefill, of the same rows, have ended one after the other.

        Args:
            start_s: When the first one began.
            steps: How many, 1 at least; step i, from 0, took `first_s` + i x `growth_s`.
            interactive_rows: Decode rows of each, of the interactive tier.
            batch_rows: Of the batch tier.
            kv_tokens: KV tokens read by the first one; each of the others reads one more for
                every row.
            first_s: How long the first one took.
            growth_s: By how much each takes longer than the one before.
            at_budget: Whether each held as many tokens as it may.
        """

    def accepted(self, *, tokens: int, interactive_rows: int, batch_rows: int) -> None:
        """The step before gave its decode rows more tokens: each is a gap of no time.

        Args:
            tokens: How many to each row.
            interactive_rows: Of the interactive tier.
            batch_rows: Of the batch tier.
        """

    def first_token(self, served: Served) -> None:
        """A request got its first token."""

    def gap(self, served: Served, gap_s: float) -> None:
        """A request got its next token only after it had been preempted: a gap of no one step."""

    def ended(self, served: Served, outcome: str) -> None:
        """An answer is whole (`length`), or was given up (`abort`)."""
