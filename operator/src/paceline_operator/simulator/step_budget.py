"""The seam for rules that pick a budget inside the engine, step by step."""

from __future__ import annotations

from typing import Protocol


class StepBudget(Protocol):
    """Asked once before each step is scheduled; the scheduler then works as with any budget."""

    def tokens(self, *, active_prefills: int, running_decodes: int, budget: int) -> int:
        """Tokens of this step, never more than the budget in force.

        Args:
            active_prefills: Requests whose prompt is not yet computed, running or waiting.
            running_decodes: Running requests whose prompt is.
            budget: Token budget in force.
        """
