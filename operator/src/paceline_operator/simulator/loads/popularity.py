"""Which of several things is chosen, where some are chosen more often than others."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

from paceline_operator.simulator.generator import Generator


@dataclass(frozen=True, slots=True)
class Popularity:
    """Zipf's law: the k-th of `kinds` is chosen in proportion to 1 / k^`skew`.

    Attributes:
        kinds: How many there are.
        skew: 0 for all alike.
    """

    kinds: int
    skew: float = 1.0

    def draw(self, generator: Generator) -> int:
        """One of 0 .. `kinds` - 1, the most popular first."""
        bounds = _bounds(self.kinds, self.skew)
        return bisect_right(bounds, generator.random() * bounds[-1], hi=self.kinds - 1)


@lru_cache(maxsize=8)
def _bounds(kinds: int, skew: float) -> tuple[float, ...]:
    return tuple(accumulate(1 / rank**skew for rank in range(1, kinds + 1)))
