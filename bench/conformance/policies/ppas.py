"""P-PAS, prefill-pressure adaptive scheduling: two budgets, switched at every step.

Rule: with at least 2 prompts running or waiting and any request decoding, the step gets the small
budget, else the large one, with which the engine is started.
Source: T. Saemann, P-PAS (arXiv 2608.15171), vLLM RFC 52906, `ppas-vllm` (2048 and 16384).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Ppas:
    """A `StepBudget`; the large budget is the engine's own.

    Attributes:
        small: `PPAS_B_CAP`.
        least_prefills: From how many prompts on there is pressure.
    """

    small: int = 2048
    least_prefills: int = 2

    def tokens(self, *, active_prefills: int, running_decodes: int, budget: int) -> int:
        """The small budget under pressure, else all of it."""
        pressed = active_prefills >= self.least_prefills and running_decodes > 0
        return min(self.small, budget) if pressed else budget
