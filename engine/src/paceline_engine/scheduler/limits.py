"""The live knobs: token budget and running cap inside the ceilings fixed at start."""

from __future__ import annotations

from paceline_engine.config import EngineConfig, budget_floor


class LiveLimits:
    """Settings that may change between two steps.

    A requested value is kept, and what is in force follows from it: the budget lies on the
    ladder of `budget_step` between the floor of the running cap in force and the ceiling.
    So a cap that is raised and lowered again brings the former budget back.

    Args:
        config: Ceilings, start values and ladder step.

    Attributes:
        step_time_target_ms: Step time that prefill chunks keep; 0 is none.
    """

    def __init__(self, config: EngineConfig) -> None:
        self._ceiling = config.max_num_batched_tokens
        self._step = config.budget_step
        self._max_running = max(1, min(config.max_num_seqs, self._ceiling - 1))
        self._requested_budget = config.initial_batched_tokens
        self._running_seqs = 0
        self.step_time_target_ms = config.initial_step_time_target_ms
        self.apply(max_num_running_seqs=config.initial_running_seqs)

    @property
    def max_num_running_seqs(self) -> int:
        """Running cap in force; nothing is admitted at or above it."""
        return self._running_seqs

    @property
    def max_num_batched_tokens(self) -> int:
        """Budget in force once no more sequences run than the cap allows."""
        return self.budget(0)

    def apply(
        self,
        *,
        max_num_batched_tokens: int | None = None,
        max_num_running_seqs: int | None = None,
        step_time_target_ms: float | None = None,
    ) -> None:
        """Sets what is not None, clamped into the ceilings; a target of 0 takes it back."""
        if max_num_batched_tokens is not None:
            self._requested_budget = max_num_batched_tokens
        if max_num_running_seqs is not None:
            self._running_seqs = min(max(max_num_running_seqs, 1), self._max_running)
        if step_time_target_ms is not None:
            self.step_time_target_ms = max(0.0, step_time_target_ms)

    def budget(self, running: int) -> int:
        """Budget of a step while `running` sequences run.

        Above the setting only while more run than a lowered cap allows: they drain down, and
        each keeps its token per step.
        """
        floor = budget_floor(max(self._running_seqs, running), self._step)
        on_ladder = min(self._requested_budget, self._ceiling) // self._step * self._step
        return min(max(on_ladder, floor), self._ceiling)
