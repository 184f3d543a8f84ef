"""A histogram while it is being filled."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from math import inf

from paceline_operator.autopilot.vocabulary.window import Histogram


class Tally:
    """Samples since the last `take`.

    Args:
        edges: Increasing upper bounds, without the open last one.
    """

    __slots__ = ("_bounds", "_counts", "_edges", "_is_empty", "_total")

    def __init__(self, edges: tuple[float, ...]) -> None:
        self._edges = edges
        self._bounds = (*edges, inf)
        self._clear()

    def observe(self, value: float) -> None:
        """Adds a sample; one on an edge belongs to the bucket below it."""
        self._counts[bisect_left(self._edges, value)] += 1.0
        self._total += value
        self._is_empty = False

    def add(self, counts: Sequence[float], total: float) -> None:
        """Adds many samples, counted by bucket, with their sum."""
        for bucket, count in enumerate(counts):
            if count:
                self._counts[bucket] += count
                self._is_empty = False
        self._total += total

    def take(self) -> Histogram | None:
        """What was added, which is then forgotten; None where nothing was."""
        if self._is_empty:
            return None
        taken = Histogram(self._bounds, tuple(self._counts), self._total)
        self._clear()
        return taken

    def _clear(self) -> None:
        self._counts = [0.0] * len(self._bounds)
        self._total = 0.0
        self._is_empty = True
