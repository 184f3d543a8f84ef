from __future__ import annotations

from bisect import bisect_left

from hypothesis import given
from hypothesis import strategies as st

from paceline_operator.simulator.metering.grid import Grid

COARSE, FINE, LIMITS = (1.0, 4.0), (0.5, 1.0, 2.0, 8.0), (3.0,)


@given(st.lists(st.floats(0.0, 10.0) | st.sampled_from([*COARSE, *FINE, *LIMITS]), max_size=30))
def test_what_was_counted_once_is_told_on_every_row(values: list[float]) -> None:
    grid = Grid((COARSE, FINE, LIMITS))
    counts = grid.zeros()
    for value in values:
        counts[bisect_left(grid.edges, value)] += 1
    for row in (COARSE, FINE):
        lowers = (float("-inf"), *row)
        uppers = (*row, float("inf"))
        wanted = [
            sum(lower < value <= upper for value in values)
            for lower, upper in zip(lowers, uppers, strict=True)
        ]
        assert grid.folded(counts, row) == wanted
    for limit in (*COARSE, *FINE, *LIMITS):
        assert grid.within(counts, limit) == sum(value <= limit for value in values)
