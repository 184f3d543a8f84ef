"""What is counted of a fleet, and when it lies too far from its prediction."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2e.trial.figures import Share, compare, is_good, misses, replica_hours, seen_figures
from tests.e2e.trial.making import FIGURES, record


@pytest.mark.parametrize(
    ("counts", "hours"),
    [
        ([], 0.0),
        ([(0.0, 2)], 2.0),
        ([(0.0, 2), (1800.0, 4)], 3.0),
        ([(-60.0, 1), (-10.0, 2)], 2.0),
        ([(0.0, 2), (3600.0, 9), (4000.0, 50)], 2.0),
        ([(600.0, 3), (1800.0, 1)], 2.0),
    ],
)
def test_replica_hours_are_the_integral_of_what_was_read(
    counts: list[tuple[float, int]], hours: float
) -> None:
    assert replica_hours(counts, 0.0, 3600.0) == pytest.approx(hours)


@given(
    st.lists(st.tuples(st.floats(-100, 4000), st.integers(0, 8)), min_size=1).map(sorted),
    st.floats(0, 3600),
)
def test_replica_hours_of_two_parts_are_those_of_the_whole(
    counts: list[tuple[float, int]], cut_s: float
) -> None:
    parts = replica_hours(counts, 0.0, cut_s) + replica_hours(counts, cut_s, 3600.0)
    assert parts == pytest.approx(replica_hours(counts, 0.0, 3600.0), abs=1e-9)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, []),
        ({"ttft": Share(90, 100)}, []),
        ({"ttft": Share(89, 100)}, ["TTFT attainment lies -6.0 points"]),
        ({"itl": Share(930, 1000)}, ["ITL attainment lies -6.0 points"]),
        ({"goodput": Share(100, 100)}, ["goodput lies +6.0 points"]),
        ({"replica_hours": 0.57}, []),
        ({"replica_hours": 0.58}, ["replica-hours lie +16%"]),
        ({"replica_hours": 0.42}, ["replica-hours lie -16%"]),
    ],
)
def test_what_lies_too_far_is_said(changes: dict[str, object], words: list[str]) -> None:
    found = misses(compare(replace(FIGURES, **changes), FIGURES))
    assert len(found) == len(words)
    assert all(text.startswith(start) for text, start in zip(found, words, strict=True))


def test_a_request_is_good_as_its_engine_would_say() -> None:
    assert is_good(record(0.0, 500.0, *[40.0] * 19, 200.0), 1000.0, 100.0, 95)
    assert not is_good(record(0.0, 500.0, *[40.0] * 18, 200.0), 1000.0, 100.0, 95)
    assert not is_good(record(0.0, 1500.0, 40.0), 1000.0, 100.0, 95)
    assert not is_good(record(0.0, None), 1000.0, 100.0, 95)
    assert is_good(record(0.0, 500.0), 1000.0, 100.0, 95)


def test_only_what_was_due_in_the_time_counts() -> None:
    records = [
        record(9.0, 5000.0, 40.0),
        record(10.0, 500.0, 40.0, 300.0),
        record(15.0, None),
        record(20.0, 5000.0),
    ]
    seen = seen_figures(
        records,
        [(0.0, 2, 2), (10.0, 3, 2), (15.0, 4, 4), (20.0, 8, 8)],
        span_s=(10.0, 20.0),
        ttft_target_ms=1000.0,
        itl_target_ms=100.0,
        itl_percentile=50,
    )
    assert (seen.ttft, seen.itl, seen.goodput) == (Share(1, 2), Share(1, 2), Share(1, 2))
    assert (seen.replicas_least, seen.replicas_most) == (2, 4)
    assert seen.replica_hours == pytest.approx(35 / 3600)
