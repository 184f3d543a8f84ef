"""The times of steps in a row that are alike."""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple


class Pace(NamedTuple):
    """Step i, from 0, takes `first_s` + i x `growth_s`, as every row reads a token more each.

    Attributes:
        first_s: Time of the first one, positive.
        growth_s: By how much each is longer than the one before, 0 at least.
    """

    first_s: float
    growth_s: float

    def elapsed_s(self, steps: int) -> float:
        """Time of the first so many together."""
        return steps * self.first_s + self.growth_s * (steps * (steps - 1) / 2)

    def within(self, seconds: float, most: int) -> int:
        """How many of the first `most` have ended after so long."""
        first_s, growth_s = self
        if seconds <= 0:
            return 0
        if growth_s > 0:
            middle = first_s - growth_s / 2
            root = sqrt(middle * middle + 2 * growth_s * seconds)
            steps = int(min(most, 2 * seconds / (middle + root)))
        else:
            steps = int(min(most, seconds / first_s))
        while steps < most and self.elapsed_s(steps + 1) <= seconds:
            steps += 1
        while steps > 0 and self.elapsed_s(steps) > seconds:
            steps -= 1
        return steps

    def longer_than(self, limit_s: float, steps: int) -> int:
        """How many of the first so many are longer than a limit."""
        first_s, growth_s = self
        if first_s > limit_s:
            return steps
        last = steps - 1
        if first_s + last * growth_s <= limit_s:
            return 0
        short = min(last, int((limit_s - first_s) / growth_s) + 1)
        while short < steps and first_s + short * growth_s <= limit_s:
            short += 1
        while first_s + (short - 1) * growth_s > limit_s:
            short -= 1
        return steps - short

    def after(self, steps: int) -> Pace:
        """The pace of those that follow the first so many."""
        return Pace(self.first_s + steps * self.growth_s, self.growth_s)
