from __future__ import annotations

from itertools import count, islice, pairwise
from random import Random
from statistics import fmean, variance

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline_operator.simulator.loads.arrivals import arrivals, points
from paceline_operator.simulator.loads.rates import Segment


def even_points() -> count[float]:
    return count(0.5)


def test_even_points_are_stretched_by_hand() -> None:
    """2 a second, a pause, then a rate that rises from 0 to 4 in 2 s: t^2 requests by t."""
    segments = [Segment(2.0, 2.0, 2.0), Segment(10.0, 0.0, 0.0), Segment(2.0, 0.0, 4.0)]
    found = list(arrivals(segments, even_points()))
    assert found == pytest.approx(
        [0.25, 0.75, 1.25, 1.75, 12 + 0.5**0.5, 12 + 1.5**0.5, 12 + 2.5**0.5, 12 + 3.5**0.5]
    )


@given(
    st.lists(
        st.tuples(st.floats(0.1, 100), st.floats(0, 5), st.floats(0, 5)), min_size=1, max_size=5
    ),
    st.sampled_from([0.5, 1.0, 4.0]),
    st.integers(0, 2**32),
)
def test_times_ascend_within_the_load(
    parts: list[tuple[float, float, float]], dispersion: float, seed: int
) -> None:
    segments = [Segment(*part) for part in parts]
    found = list(arrivals(segments, points(Random(seed), dispersion)))
    end_s = sum(segment.duration_s for segment in segments)
    assert all(a <= b for a, b in pairwise(found))
    assert all(0 <= at_s <= end_s * (1 + 1e-9) for at_s in found)


@pytest.mark.parametrize("dispersion", [0.25, 1.0, 4.0])
def test_rate_and_dispersion(dispersion: float) -> None:
    """Variance over mean of the counts in 500 stretches; its standard error is 6 %."""
    generator, counts = Random(3), [0] * 500
    for point in points(generator, dispersion):
        if point >= 500 * 50:
            break
        counts[int(point / 50)] += 1
    assert fmean(counts) == pytest.approx(50, rel=0.03)
    assert variance(counts) / fmean(counts) == pytest.approx(dispersion, rel=0.25)


def test_the_same_chance_gives_the_same_points() -> None:
    assert list(islice(points(Random(5)), 9)) == list(islice(points(Random(5)), 9))
