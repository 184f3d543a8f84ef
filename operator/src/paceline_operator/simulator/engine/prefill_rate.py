"""How fast prompts can be computed, known from the first step on and guessed before it."""

from __future__ import annotations

from math import exp

from paceline_operator.simulator.engine.drain_rate import MEMORY_S
from paceline_operator.simulator.law import StepTime


class PrefillRate:
    """Prompt tokens a second of full steps.

    A step that computed n prompt tokens in d seconds, with room for B, says that a full one
    computes between n/d and B/d tokens a second.

    Args:
        law: For the guess.

    Attributes:
        worked_s: Seconds of all steps that computed a part of a prompt.
    """

    def __init__(self, law: StepTime) -> None:
        self.worked_s = 0.0
        self._law = law
        self._tokens = 0.0
        self._room = 0.0
        self._seconds = 0.0

    def add(self, prefill_tokens: int, decode_rows: int, seconds: float, budget: int) -> None:
        """A step with prefill has run, with such a budget in force."""
        self.worked_s += seconds
        kept = exp(-seconds / MEMORY_S)
        self._tokens = self._tokens * kept + prefill_tokens
        self._room = self._room * kept + max(prefill_tokens, budget - decode_rows)
        self._seconds = self._seconds * kept + seconds

    def per_second(self, budget: int) -> float:
        """The guess, held between what the steps so far allow."""
        guess = budget / (max(self._law.step_ms(budget, 0, 0, 0), 1e-3) / 1e3)
        if not self._seconds:
            return guess
        return min(max(guess, self._tokens / self._seconds), self._room / self._seconds)
