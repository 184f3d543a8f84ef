from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline_operator.autopilot.measurement.minutes import KEPT_S, LATE_S, noted
from paceline_operator.autopilot.vocabulary.memory import Minute
from paceline_operator.autopilot.vocabulary.window import Counter, Window
from tests.operator.autopilot.build import window


def cut(start_s: float, length_s: float = 5.0, tokens: float = 100.0) -> Window:
    counters = {Counter.PROMPT_TOKENS_RECEIVED: tokens}
    return window(start_s, start_s + length_s, counters=counters)


def test_minutes_are_taken_once_they_are_old_enough() -> None:
    slices = [cut(5.0 * n) for n in range(60)]
    found = noted((), slices)
    assert found == (Minute(start_s=0.0, end_s=60.0, tokens=1200.0), Minute(
        start_s=60.0, end_s=120.0, tokens=1200.0
    ))  # fmt: skip
    assert found[-1].end_s <= 300.0 - LATE_S
    assert noted(found, slices) == found


def test_what_the_slices_forget_is_still_there() -> None:
    known: tuple[Minute, ...] = ()
    for now in range(1, 400):
        slices = [cut(5.0 * n) for n in range(max(0, now - 60), now)]
        known = noted(known, slices)
        assert all(before.end_s == after.start_s for before, after in pairwise(known))
    now_s = 5.0 * 399
    assert now_s - KEPT_S <= known[0].start_s < now_s - KEPT_S + 60.0
    assert now_s - LATE_S - 60.0 < known[-1].end_s <= now_s - LATE_S
    assert {minute.tokens for minute in known} == {1200.0}


def test_an_outage_is_in_no_minute() -> None:
    slices = [cut(0.0), cut(5.0), *(cut(120.0 + 5.0 * n) for n in range(60))]
    assert noted((), slices)[0] == Minute(start_s=120.0, end_s=180.0, tokens=1200.0)


def test_work_of_the_batch_tier_is_no_demand() -> None:
    counters = {Counter.PROMPT_TOKENS_RECEIVED: 100.0, Counter.BATCH_TOKENS_RECEIVED: 90.0}
    slices = [window(5.0 * n, 5.0 * n + 5.0, counters=counters) for n in range(60)]
    assert noted((), slices)[0].tokens == pytest.approx(120.0)


def test_requests_are_counted_by_their_share_of_the_tokens() -> None:
    counters = {
        Counter.REQUESTS_RECEIVED: 10.0,
        Counter.PROMPT_TOKENS_RECEIVED: 100.0,
        Counter.BATCH_TOKENS_RECEIVED: 80.0,
    }
    slices = [window(5.0 * n, 5.0 * n + 5.0, counters=counters) for n in range(60)]
    assert noted((), slices)[0].requests == pytest.approx(24.0)


def test_without_slices_nothing_is_forgotten() -> None:
    known = (Minute(start_s=0.0, end_s=60.0, tokens=1.0),)
    assert noted(known, ()) == known


@given(st.lists(st.floats(1.0, 200.0), min_size=1, max_size=80))
def test_no_token_counts_twice(lengths_s: list[float]) -> None:
    starts = [sum(lengths_s[:n]) for n in range(len(lengths_s))]
    slices = [cut(start_s, length_s) for start_s, length_s in zip(starts, lengths_s, strict=True)]
    found = noted((), slices)
    assert sum(minute.tokens for minute in found) <= 100.0 * len(slices) + 1e-6
    assert all(before.end_s <= after.start_s + 1e-6 for before, after in pairwise(found))
