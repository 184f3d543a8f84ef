from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline_operator.autopilot.window import Histogram, merge
from tests.operator.autopilot.build import moments, window

INFINITE = float("inf")
counts = st.lists(st.integers(0, 50), min_size=4, max_size=4)


def histogram(values: list[int]) -> Histogram:
    return Histogram((1.0, 2.0, 4.0, INFINITE), tuple(float(v) for v in values), float(sum(values)))


@given(counts, st.floats(0.01, 0.99))
def test_quantile_and_share_below_agree(values: list[int], share: float) -> None:
    made = histogram([*values[:3], 0])
    value = made.quantile(share)
    if value is not None:
        assert made.below(value) == pytest.approx(share * made.samples, abs=1e-6)


@given(counts, counts)
def test_histograms_add(first: list[int], second: list[int]) -> None:
    total = histogram(first) + histogram(second)
    assert total.samples == sum(first) + sum(second)


def test_different_edges_fall_back_to_common_ones() -> None:
    coarse = Histogram((2.0, INFINITE), (3.0, 1.0), 9.0)
    total = histogram([1, 1, 1, 1]) + coarse
    assert total.edges == (2.0, INFINITE)
    assert total.counts == (5.0, 3.0)


def test_the_open_bucket_is_above_everything() -> None:
    assert histogram([0, 0, 0, 5]).below(100.0) == 0
    assert histogram([0, 0, 0, 5]).quantile(0.5) == 4.0


@pytest.mark.parametrize(("values", "variation"), [([0, 9, 0, 0], 0.0), ([5, 0, 5, 0], 0.51)])
def test_squared_variation(values: list[int], variation: float) -> None:
    assert histogram(values).squared_variation == pytest.approx(variation, abs=0.01)


def test_moments_know_mean_and_spread() -> None:
    seen = moments((10, 2, 0, 0, 0.1), (20, 2, 0, 0, 0.3))
    assert seen.count == 2
    assert seen.mean("p") == 15
    assert seen.spread("t") == pytest.approx(0.1)
    assert seen.product("t", "p") == seen.product("p", "t") == pytest.approx(7.0)


def test_merged_windows_span_all() -> None:
    total = merge([window(0, 5), window(5, 10)])
    assert (total.start_s, total.end_s, total.pod_seconds) == (0, 10, 10)
    assert merge([]).length_s == 0
