from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline_engine.server.drain_rate import DrainRate, retry_after_s

BEHIND = 10**9


def steady(amount: float, every_s: float, times: int) -> tuple[DrainRate, float]:
    """A rate that saw `amount` leave `times` times, and the time of the last."""
    rate, now_s = DrainRate(memory_s=10), 100.0
    rate.came(BEHIND, now_s)
    for _ in range(times):
        now_s += every_s
        rate.left(amount, now_s)
    return rate, now_s


@given(st.integers(1, 10_000), st.floats(0.01, 60), st.integers(1, 50))
def test_a_steady_drain_is_measured_as_it_is(amount: int, every_s: float, times: int) -> None:
    rate, now_s = steady(amount, every_s, times)
    assert rate.per_second(now_s) == pytest.approx(amount / every_s, rel=1e-6)


def test_nothing_is_known_before_anything_has_left() -> None:
    rate = DrainRate()
    rate.came(1, 1.0)
    assert rate.per_second(50.0) is None


def test_a_queue_that_stands_still_has_a_falling_rate() -> None:
    rate, now_s = steady(10, 1.0, 30)
    seen = [rate.per_second(now_s + waited) for waited in (0, 5, 20, 100)]
    assert seen == sorted(seen, reverse=True)  # type: ignore[type-var]  # none is None
    assert seen[-1] is not None
    assert seen[-1] < 0.1


def test_time_without_a_queue_does_not_count() -> None:
    rate, now_s = steady(10, 1.0, 30)
    rate.gone(BEHIND - 300)
    assert rate.per_second(now_s + 3600) == pytest.approx(10)
    rate.came(20, now_s + 3600)
    rate.left(10, now_s + 3601)
    assert rate.per_second(now_s + 3601) == pytest.approx(10)


@pytest.mark.behaviour(
    "How fast a queue drains is learnt only while more waits",
    report="own risk: calls that came one by one made it look slow, and a burst was refused",
)
def test_what_leaves_alone_tells_nothing() -> None:
    alone, overlapping = DrainRate(), DrainRate()
    overlapping.came(10, 0.0)
    for now_s in range(50):
        alone.came(10, now_s)
        alone.left(10, now_s + 0.5)
        overlapping.came(10, now_s + 0.2)
        overlapping.left(10, now_s + 0.5)
    assert alone.per_second(50.0) is None
    assert overlapping.per_second(50.0) is None


def test_a_rate_that_was_measured_never_becomes_unknown() -> None:
    rate, now_s = steady(10, 1.0, 30)
    assert rate.per_second(now_s + 1e6) == 0.0  # its sum is below any number
    assert retry_after_s(1, rate.per_second(now_s + 1e6)) == 60


def test_a_new_pace_takes_over() -> None:
    rate, now_s = steady(10, 1.0, 60)
    for _ in range(40):
        now_s += 1.0
        rate.left(100, now_s)
    assert rate.per_second(now_s) == pytest.approx(100, rel=0.03)


def test_many_may_leave_at_one_moment() -> None:
    rate = DrainRate()
    rate.came(41, 0.0)
    for _ in range(8):
        rate.left(5, 2.0)
    assert rate.per_second(2.0) == pytest.approx(20)


@pytest.mark.parametrize(
    ("excess", "per_second", "said"),
    [(10, None, 1), (0, 5.0, 1), (4, 5.0, 1), (26, 5.0, 6), (300, 5.0, 60), (1e9, 5.0, 60),
     (1, 1e-300, 60), (1, 0.0, 60)],
)  # fmt: skip
def test_retry_after_is_within_a_minute(excess: float, per_second: float | None, said: int) -> None:
    assert retry_after_s(excess, per_second) == said


@pytest.mark.parametrize(("waited_s", "said"), [(0.0, 1), (0.2, 1), (7.5, 8), (1e9, 60)])
def test_where_nothing_was_measured_the_wait_so_far_is_told(waited_s: float, said: int) -> None:
    assert retry_after_s(10, None, waited_s) == said


def test_what_leaves_with_one_that_was_alone_adds_no_amount_without_its_time() -> None:
    """The first came to an empty queue, the others before the step that served all of them."""
    rate = DrainRate()
    for now_s in (0.0, 0.1, 0.1, 0.1, 0.1):
        rate.came(10, now_s)
    for now_s in (1.0, 1.001, 1.002):
        rate.left(10, now_s)
    assert rate.per_second(1.01) is None
    rate.left(10, 2.002)
    assert rate.per_second(2.002) == pytest.approx(10.0)
