"""One row of buckets for step times that is fine enough for all that is told of them.

A step's time is a sample of the step histogram, the gap of each of its rows, and in time or
late for every ITL target. So it is looked up once, here, and sorted into those at the end.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from math import inf


class Grid:
    """Buckets between all edges of some rows of edges.

    Args:
        rows: Rows of increasing upper bounds.

    Attributes:
        edges: Of all rows, increasing, each once.
    """

    __slots__ = ("_places", "edges")

    def __init__(self, rows: Iterable[Sequence[float]]) -> None:
        given = [tuple(row) for row in rows]
        self.edges: tuple[float, ...] = tuple(sorted({edge for row in given for edge in row}))
        uppers = (*self.edges, inf)
        self._places = {row: [bisect_left(row, upper) for upper in uppers] for row in given}

    def zeros(self) -> list[int]:
        """An empty count for each bucket, the open last one included."""
        return [0] * (len(self.edges) + 1)

    def folded(self, counts: Sequence[int], row: tuple[float, ...]) -> list[float]:
        """Counts of the grid's buckets on the edges of one row, its open last one included."""
        found = [0.0] * (len(row) + 1)
        for place, count in zip(self._places[row], counts, strict=True):
            if count:
                found[place] += count
        return found

    def within(self, counts: Sequence[int], limit: float) -> int:
        """Samples up to `limit`, which is one of the edges."""
        return sum(counts[: bisect_left(self.edges, limit) + 1])
