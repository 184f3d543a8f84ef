"""A sink that writes down what it is told, the steps of a stretch one by one."""

from __future__ import annotations

from dataclasses import dataclass

from paceline_operator.simulator.sink import Served


@dataclass(frozen=True, slots=True)
class Step:
    """One step."""

    end_s: float
    seconds: float
    prefill_tokens: int
    rows: int
    kv_tokens: int


class Recorder:
    """See above."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.told = 0
        self.accepted_tokens = 0
        self.served: dict[int, Served] = {}
        self.outcomes: dict[int, str] = {}
        self.odd_gaps: list[float] = []

    def admitted(self, served: Served) -> None:
        self.served[served.id] = served

    def step(self, *, end_s, seconds, prefill_tokens, interactive_rows, batch_rows, kv_tokens,
             chunk_context, at_budget):  # fmt: skip
        self.told += 1
        self.steps.append(
            Step(end_s, seconds, prefill_tokens, interactive_rows + batch_rows, kv_tokens)
        )

    def stretch(self, *, start_s, steps, interactive_rows, batch_rows, kv_tokens, first_s,
                growth_s, at_budget):  # fmt: skip
        self.told += 1
        rows = interactive_rows + batch_rows
        for number in range(steps):
            seconds = first_s + number * growth_s
            start_s += seconds
            self.steps.append(Step(start_s, seconds, 0, rows, kv_tokens + number * rows))

    def accepted(self, *, tokens, interactive_rows, batch_rows):
        self.accepted_tokens += tokens * (interactive_rows + batch_rows)

    def first_token(self, served: Served) -> None:
        assert served.first_s is not None

    def gap(self, served: Served, gap_s: float) -> None:
        self.odd_gaps.append(gap_s)

    def ended(self, served: Served, outcome: str) -> None:
        self.outcomes[served.id] = outcome
