"""How fast prompts can be computed, known from the first step on and guessed before it. Pure.

A queue's drain is measured only once something has left it while something else stayed; a
limit on the wait must hold from the first burst on. Steps tell sooner: one that computed n
prompt tokens in d seconds, with room for B, says that a full one computes between n/d and B/d
tokens a second, since a step never gets shorter with more tokens, nor longer than in proportion.
"""

from __future__ import annotations

from collections.abc import Callable
from math import exp
from typing import Final

from paceline_engine.config import StepTimeLaw
from paceline_engine.message import StepStats

MEMORY_S: Final = 10.0
GUESSED_STEP_S: Final = 1.0
"""What a step of the whole budget is taken to last before one has run."""


class PrefillRate:
    """Prompt tokens a second of full steps.

    Args:
        budget: Token budget in force.
        law: Of a simulated device: what nobody need guess.

    Attributes:
        worked_s: Seconds of all steps that computed a part of a prompt.
    """

    def __init__(self, budget: Callable[[], int], law: StepTimeLaw | None = None) -> None:
        self.worked_s = 0.0
        self._budget = budget
        self._law = law
        self._tokens = 0.0
        self._room = 0.0
        self._seconds = 0.0

    @property
    def is_measured(self) -> bool:
        """Whether a step has computed a part of a prompt."""
        return self._seconds > 0

    def add(self, step: StepStats) -> None:
        """A step has run; those without a part of a prompt tell nothing."""
        if not step.prefill_tokens or step.duration_s <= 0:
            return
        self.worked_s += step.duration_s
        kept = exp(-step.duration_s / MEMORY_S)
        room = max(step.prefill_tokens, self._budget() - step.decode_rows)
        self._tokens = self._tokens * kept + step.prefill_tokens
        self._room = self._room * kept + room
        self._seconds = self._seconds * kept + step.duration_s

    def per_second(self) -> float:
        """The guess, held between what the steps so far allow."""
        guess = self._budget() / self._guessed_step_s()
        if not self.is_measured:
            return guess
        return min(max(guess, self._tokens / self._seconds), self._room / self._seconds)

    def _guessed_step_s(self) -> float:
        law, tokens = self._law, self._budget()
        if law is None:
            return GUESSED_STEP_S
        floor_ms = law.floor_ms + law.floor_per_token_ms * tokens
        return max(floor_ms, law.base_ms + law.per_token_ms * tokens, 1e-3) / 1e3
