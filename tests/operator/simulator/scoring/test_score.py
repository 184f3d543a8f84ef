from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline_operator.simulator.scoring.outcome import Outcome
from paceline_operator.simulator.scoring.score import (
    Score,
    by_time,
    overall,
    violation_minutes,
    worst_window,
)


def sent(at_s: float, *, good: bool = True) -> Outcome:
    return Outcome(at_s, "interactive", 0.1 if good else 9.0, 10.0)


def samples(outcome: Outcome) -> tuple[int, int]:
    return int(outcome.ttft_s == 0.1), 1


loads = st.lists(st.tuples(st.integers(0, 2_000), st.booleans()), min_size=1, max_size=60).map(
    lambda pairs: [sent(float(at_s), good=good) for at_s, good in pairs]
)


def test_overall() -> None:
    assert overall([sent(0), sent(1, good=False), sent(2)], samples) == Score(0.0, 2, 3)
    assert overall([], samples).share == 1.0


def test_bins_are_by_arrival_and_hold_samples() -> None:
    load = [sent(1031), sent(1000, good=False), sent(1014.9), sent(1015)]
    assert by_time(load, samples, begin_s=1000.0) == [
        Score(1000.0, 1, 2),
        Score(1015.0, 1, 1),
        Score(1030.0, 1, 1),
    ]


@given(loads)
def test_bins_hold_every_sample_once(load: list[Outcome]) -> None:
    bins = by_time(load, samples)
    assert sum(each.total for each in bins) == len(load)
    assert sum(each.good for each in bins) == overall(load, samples).good


@given(loads, st.integers(1, 5))
def test_no_stretch_of_that_length_is_worse_than_the_worst(load: list[Outcome], least: int) -> None:
    first_s = min(o.arrival_s for o in load)
    last_s = max(o.arrival_s for o in load)
    ends = {o.arrival_s for o in load if o.arrival_s - 300 >= first_s} | {last_s}
    shares = []
    for end_s in ends:
        inside = [o for o in load if end_s - 300 < o.arrival_s <= end_s]
        if len(inside) >= least:
            shares.append(sum(samples(o)[0] for o in inside) / len(inside))
    found = worst_window(load, samples, least_samples=least)
    assert (found.share if found else None) == (pytest.approx(min(shares)) if shares else None)


def test_minutes_with_too_few_good_ones() -> None:
    load = [sent(s, good=s not in (61, 62)) for s in range(0, 180, 1)]
    assert violation_minutes(load, samples, 0.97) == 1
    assert violation_minutes(load, samples, 0.95) == 0
