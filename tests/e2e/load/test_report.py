from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2e.load.record import Outcome, Record
from e2e.load.report import (
    Z_90,
    Attainment,
    between,
    gaps_between,
    itl_attainment,
    lost,
    percentile,
    step_times,
    ttft_attainment,
    ttft_good,
    wilson,
)
from tests.e2e.load.making import record


@pytest.mark.parametrize(
    ("good", "n", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611),
     (1, 29, 0.0061, 0.1718)],
)  # fmt: skip
def test_wilson_gives_published_intervals(good: int, n: int, low: float, high: float) -> None:
    # R. G. Newcombe, Statistics in Medicine 17 (1998) 857-872, table I, method 3 (95 %).
    assert wilson(good / n, n, z=1.959964) == pytest.approx((low, high), abs=5e-5)


@given(st.integers(1, 5000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_ends_lie_z_deviations_from_the_share(counts: tuple[int, int]) -> None:
    good, n = counts
    share = good / n
    low, high = wilson(share, n)
    assert 0 <= low <= share + 1e-12
    assert share - 1e-12 <= high <= 1
    for end in (low, high):
        if 1e-9 < end < 1 - 1e-9:
            assert abs(share - end) == pytest.approx(Z_90 * math.sqrt(end * (1 - end) / n))


def test_the_interval_is_the_90_percent_one() -> None:
    # (p + z2/2n -+ z sqrt(p(1-p)/n + z2/4n2)) / (1 + z2/n) with z2 = 2.70554, by hand.
    attainment = Attainment(good=95, total=100, n=100)
    assert attainment.interval == pytest.approx((0.90084, 0.97545), abs=1e-5)


def test_no_samples_prove_nothing() -> None:
    empty = Attainment(good=0, total=0, n=0)
    assert (empty.share, empty.interval) == (0.0, (0.0, 1.0))


LATE, FAST = 501.0, 500.0


@pytest.mark.parametrize(
    ("made", "good"),
    [
        (record(0, FAST), True),
        (record(0, LATE), False),
        (record(0, FAST, outcome=Outcome.LOST), True),
        (record(0, None, outcome=Outcome.LOST), False),
        (record(0, None, outcome=Outcome.REFUSED, waited_s=0.01), False),
        (record(0, None, outcome=Outcome.CANCELLED, waited_s=0.4), None),
        (record(0, None, outcome=Outcome.CANCELLED, waited_s=0.6), False),
        (record(0, FAST, outcome=Outcome.CANCELLED), True),
        (record(0, None, streamed=False), None),
        (record(0, None, streamed=False, outcome=Outcome.LOST), False),
    ],
)
def test_what_counts_for_ttft(made: Record, good: bool | None) -> None:
    assert ttft_good(made, 500.0) is good


def test_ttft_counts_requests() -> None:
    records = [record(0, FAST)] * 3 + [record(0, LATE), record(0, None, streamed=False)]
    assert ttft_attainment(records, 500.0) == Attainment(good=3, total=4, n=4)


def test_itl_counts_gaps_and_is_sure_of_steps() -> None:
    # Two answers in step: three texts each at the same times, so three steps, four gaps.
    records = [record(10.0, 100.0, 40.0, 60.0), record(9.9, 200.0, 40.0, 60.0)]
    assert itl_attainment(records, 50.0) == Attainment(good=2, total=4, n=3)
    assert itl_attainment(records, 50.0, steps=2) == Attainment(good=2, total=4, n=2)
    assert itl_attainment(records, 50.0, steps=99).n == 4


def test_steps_are_texts_apart() -> None:
    records = [record(0.0, 100.0, 1.5, 30.0), record(0.0, 101.0, 30.0)]
    assert step_times(records) == pytest.approx([0.1, 0.131])


def test_windows_take_requests_by_sending_and_gaps_by_ending() -> None:
    early, later = record(1.0, 900.0, 200.0), record(2.0, 100.0, 50.0)
    assert between([early, later], 2.0, 3.0) == [later]
    assert between([early, later], 1.0, 2.0) == [early]
    assert gaps_between([early, later], 2.0, 3.0) == [200.0, 50.0]


def test_lost_is_neither_refused_nor_cancelled() -> None:
    records = [record(outcome=outcome) for outcome in Outcome]
    assert [r.outcome for r in lost(records)] == [Outcome.LOST]


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [
        ([], 50, None),
        ([3.0], 99, 3.0),
        ([4.0, 1.0, 3.0, 2.0], 50, 2.0),
        ([4.0, 1.0, 3.0, 2.0], 75, 3.0),
        ([4.0, 1.0, 3.0, 2.0], 76, 4.0),
        ([2.0, 1.0], 0, 1.0),
    ],
)
def test_percentiles_are_nearest_rank(
    values: list[float], percent: float, expected: float | None
) -> None:
    assert percentile(values, percent) == expected
