"""The values a budget may take: multiples of the engine's step between two limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

RUNG_SHARE = 0.12


@dataclass(frozen=True, slots=True, kw_only=True)
class Ladder:
    """Allowed budgets.

    Attributes:
        floor: Lowest, a multiple of `step`.
        ceiling: Highest; itself allowed even where it is no multiple.
        step: Granularity.
    """

    floor: int
    ceiling: int
    step: int

    def down(self, value: float) -> int:
        """Largest allowed budget not above `value`, or the floor."""
        if value >= self.ceiling:
            return self.ceiling
        return max(self.floor, int(value // self.step) * self.step)

    def next_up(self, budget: int) -> int:
        """The rung above: 12 % or one step more."""
        wanted = budget + max(self.step, RUNG_SHARE * budget)
        return min(self.ceiling, max(self.down(wanted), budget))

    def holds(self, budget: int) -> bool:
        """Whether a budget is on the ladder."""
        inside = self.floor <= budget <= self.ceiling
        return inside and (budget % self.step == 0 or budget == self.ceiling)

    def largest(self, allowed: Callable[[int], bool]) -> int | None:
        """Largest budget that is allowed, where all below an allowed one are too.

        None where not even the floor is.
        """
        if not allowed(self.floor):
            return None
        if allowed(self.ceiling):
            return self.ceiling
        low, high = self.floor // self.step, self.ceiling // self.step + 1
        while high - low > 1:
            middle = (low + high) // 2
            if middle * self.step <= self.ceiling and allowed(middle * self.step):
                low = middle
            else:
                high = middle
        return max(self.floor, low * self.step)
