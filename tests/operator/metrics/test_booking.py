"""Growth of pods that are read at different moments."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from paceline_operator.autopilot.vocabulary.window import Counter, Window
from paceline_operator.metrics.booking import Booking

RECEIVED, FINISHED = Counter.REQUESTS_RECEIVED, Counter.REQUESTS_FINISHED


def grown(start_s: float, end_s: float, rps: float = 2.0) -> Window:
    count = rps * (end_s - start_s)
    return Window(start_s=start_s, end_s=end_s, pod_seconds=end_s - start_s,
                  counters={RECEIVED: count, FINISHED: count})  # fmt: skip


def told(slices: tuple[Window, ...]) -> list[tuple[float, float, float]]:
    return [(each.start_s, each.end_s, each.count(RECEIVED)) for each in slices]


def test_pods_that_were_read_at_once_are_booked_at_once() -> None:
    assert told(Booking().append([grown(0, 5), grown(0, 5)], 5.0)) == [(0, 5, 20)]


def test_what_came_in_after_the_first_of_them_waits_for_the_next_round() -> None:
    booking = Booking()
    assert told(booking.append([grown(0, 15), grown(9, 24)], 30.0)) == [(0, 15, 30 + 12)]
    slices = booking.append([grown(15, 30), grown(24, 39)], 45.0)
    assert told(slices) == [(0, 15, 42), (15, 30, 60)]
    # All else is no rate.
    assert [each.count(FINISHED) for each in slices] == [60, 60]


def test_growth_behind_the_last_slice_waits_for_the_next() -> None:
    booking = Booking()
    booking.append([grown(0, 20)], 20.0)
    assert told(booking.append([grown(5, 18)], 25.0)) == [(0, 20, 40)]
    assert told(booking.append([grown(20, 30)], 30.0)) == [(0, 20, 66), (20, 30, 20)]


def test_a_gap_is_not_filled_with_what_waited() -> None:
    booking = Booking()
    booking.append([grown(0, 15), grown(0, 24)], 30.0)
    slices = booking.append([grown(200, 215), grown(200, 215)], 220.0)
    assert told(slices) == [(0, 15, 60), (15, 24, 18), (200, 215, 60)]


def test_a_round_without_news_changes_nothing() -> None:
    booking = Booking()
    before = booking.append([grown(0, 15), grown(0, 24)], 30.0)
    assert booking.append([], 45.0) == before


@given(
    phases=st.lists(st.floats(0.0, 4.9), min_size=1, max_size=4),
    pauses=st.lists(st.floats(1.0, 9.0), min_size=3, max_size=25),
)
def test_an_even_load_is_even_whatever_the_rounds(phases: list[float], pauses: list[float]) -> None:
    """Each pod is scraped each 5 s, at a moment of its own, and receives 2 requests a second."""
    booking, now_s = Booking(), 20.0
    last = [0.0] * len(phases)
    slices: tuple[Window, ...] = ()
    seen = False
    for pause_s in pauses:
        now_s += pause_s
        newest = [5.0 * ((now_s - phase) // 5) + phase for phase in phases]
        news = [
            grown(before, after)
            for before, after in zip(last, newest, strict=True)
            if seen and after > before
        ]
        last, seen = newest, True
        slices = booking.append(news, now_s)
    received = sum(each.count(RECEIVED) for each in slices)
    assert received <= 2.0 * len(phases) * sum(each.length_s for each in slices) + 1e-6
    for each in slices:
        assert each.length_s > 0
        assert each.rate(RECEIVED) <= 2.0 * len(phases) + 1e-6
