"""The live knobs of an engine, inside the ceilings fixed at start."""

from __future__ import annotations

from paceline_operator.simulator.engine_config import EngineConfig


class LiveLimits:
    """Settings that may change between two steps.

    A requested budget is kept, and what is in force follows from it: it lies on the ladder of
    `step` between the floor of the running cap and the ceiling.

    Args:
        config: Ceilings, start values and the ladder's step.

    Attributes:
        running_cap: Nothing is let in at or above it.
        running_ceiling: Largest running cap.
        ceiling: Largest budget.
        step: Granularity of the budget.
    """

    def __init__(self, config: EngineConfig) -> None:
        self.ceiling = config.max_num_batched_tokens
        self.step = config.budget_step
        self.running_ceiling = max(1, min(config.max_num_seqs, self.ceiling - 1))
        self.running_cap = 1
        self._requested = config.initial_batched_tokens
        self.apply(None, config.initial_running_seqs)

    def apply(self, budget: int | None, running_cap: int | None) -> None:
        """Sets what is not None, clamped into the ceilings."""
        if budget is not None:
            self._requested = budget
        if running_cap is not None:
            self.running_cap = min(max(running_cap, 1), self.running_ceiling)

    def floor(self, running: int) -> int:
        """Smallest budget that lets so many decode and one prompt advance, on the ladder."""
        return min(self.ceiling, -(-(running + 1) // self.step) * self.step)

    def budget(self, running: int) -> int:
        """Budget of a step while `running` requests run.

        Above the setting only while more run than a lowered cap allows: each keeps its token.
        """
        on_ladder = min(self._requested, self.ceiling) // self.step * self.step
        return max(on_ladder, self.floor(max(self.running_cap, running)))
