from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.conformance.shape import measure, quantile
from paceline_operator.simulator.request import Request


def test_figures_by_hand() -> None:
    """Two in the first five minutes, none in the next, two in one minute of the third."""
    shape = measure(
        [
            Request(0.0, 100, 10),
            Request(120.0, 300, 30),
            Request(600.0, 200, 20),
            Request(630.0, 200, 40),
        ]
    )
    assert (shape.requests, shape.span_s, shape.grid_s) == (4, 630.0, 30.0)
    assert shape.mean_rps == pytest.approx(4 / 630)
    assert shape.peak_rps == pytest.approx(2 / 60)
    assert (shape.workload.prompt_mean, shape.workload.output_mean) == (200, 25)
    assert (shape.workload.prompt_p95, shape.output_p95) == (300, 40)
    assert shape.workload.prompt_cv2 == pytest.approx((0.25 + 0.25) / 4)
    assert [part.rps for part in shape.stretches] == pytest.approx([2 / 300, 2 / 300])
    assert [part.workload.output_mean for part in shape.stretches] == [20, 30]


def test_hits_are_what_was_seen_before_from_the_beginning() -> None:
    shape = measure(
        [
            Request(0.0, 1024, 1, (1, 2)),
            Request(1.0, 1100, 1, (1, 2, 3)),  # 1,024 found.
            Request(2.0, 1024, 1, (4, 2)),  # Nothing: the first block differs.
            Request(3.0, 1024, 1, (1, 2)),  # All but the last token.
            Request(4.0, 1024, 1),
        ],
        caches=1,
    )
    assert shape.workload.hit_rate == pytest.approx((1024 + 1023) / (4 * 1024 + 1100))


def test_a_pod_finds_only_what_it_computed_itself() -> None:
    """One prompt, five times, to two pods in turn: three times it was there before."""
    shape = measure([Request(float(n), 513, 1, (1,)) for n in range(5)], caches=2)
    assert shape.workload.hit_rate == pytest.approx(3 * 512 / (5 * 513))


def test_nothing_has_no_shape() -> None:
    with pytest.raises(ValueError, match="without a request"):
        measure([])


@pytest.mark.parametrize(
    ("arrivals_s", "grid_s"),
    [((0, 3, 9), 3.0), ((0, 3, 3.5), 0.5), ((0, 0.001, 2), 0.001), ((6, 6), 6.0)],
)
def test_grid(arrivals_s: tuple[float, ...], grid_s: float) -> None:
    assert measure(Request(float(at_s), 1, 1) for at_s in arrivals_s).grid_s == grid_s


@given(st.lists(st.integers(0, 50), min_size=1), st.sampled_from([0.5, 0.75, 0.95]))
def test_a_quantile_is_the_smallest_value_with_enough_below(
    values: list[int], share: float
) -> None:
    found = quantile(values, share)
    enough = [v for v in values if sum(w <= v for w in values) >= Fraction(share) * len(values)]
    assert found == min(enough)
