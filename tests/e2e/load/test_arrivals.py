from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2e.load import arrivals
from e2e.load.arrivals import Segment

RATES = st.floats(0.0, 20.0)
SEGMENTS = st.lists(
    st.builds(
        Segment,
        phase=st.sampled_from(["a", "b"]),
        duration_s=st.floats(0.5, 60.0),
        rate_from=RATES,
        rate_to=RATES,
    ),
    min_size=1,
    max_size=5,
).filter(lambda segments: sum(s.expected for s in segments) > 0.01)


def total_s(segments: tuple[Segment, ...]) -> float:
    return sum(segment.duration_s for segment in segments)


@given(SEGMENTS, st.integers(0, 2**32))
def test_arrivals_ascend_and_lie_in_their_phase(segments: list[Segment], seed: int) -> None:
    found = list(arrivals.arrivals(segments, arrivals.poisson(Random(seed))))
    offsets = [arrival.offset_s for arrival in found]
    assert offsets == sorted(offsets)
    bounds, start_s = [], 0.0
    for segment in segments:
        bounds.append((start_s, start_s + segment.duration_s, segment.phase))
        start_s += segment.duration_s
    for arrival in found:
        assert any(
            low - 1e-6 <= arrival.offset_s <= high + 1e-6 and phase == arrival.phase
            for low, high, phase in bounds
        )


@given(SEGMENTS)
def test_even_spacing_gives_the_expected_count(segments: list[Segment]) -> None:
    expected = sum(segment.expected for segment in segments)
    count = len(list(arrivals.arrivals(segments, arrivals.even())))
    assert abs(count - expected) <= 0.5 + 1e-6


@given(st.integers(0, 2**32))
def test_poisson_counts_stay_within_six_deviations(seed: int) -> None:
    segments = arrivals.step(2.0, 3.0, 60.0, 100.0, 30.0)
    found = list(arrivals.arrivals(segments, arrivals.poisson(Random(seed))))
    for phase, expected in (("before", 120.0), ("step", 600.0), ("after", 60.0)):
        count = sum(arrival.phase == phase for arrival in found)
        assert abs(count - expected) < 6 * math.sqrt(expected)


@given(RATES, RATES, st.floats(0.5, 60.0), st.floats(0.0, 1.0))
def test_time_of_inverts_the_cumulative_rate(
    rate_from: float, rate_to: float, duration_s: float, part: float
) -> None:
    segment = Segment(phase="", duration_s=duration_s, rate_from=rate_from, rate_to=rate_to)
    mass = part * segment.expected
    if mass < 1e-6:
        return
    at = segment.time_of(mass)
    slope = (rate_to - rate_from) / duration_s
    assert rate_from * at + slope * at * at / 2 == pytest.approx(mass, rel=1e-6, abs=1e-6)


def test_step_is_the_same_rate_around_a_multiple() -> None:
    before, high, after = arrivals.step(2.0, 3.0, 10.0, 20.0, 5.0)
    assert (before.phase, high.phase, after.phase) == ("before", "step", "after")
    assert (before.rate_from, high.rate_from, high.rate_to, after.rate_to) == (2.0, 6.0, 6.0, 2.0)


def test_step_leaves_out_what_takes_no_time() -> None:
    assert [s.phase for s in arrivals.step(1.0, 3.0, 0.0, 20.0, 0.0)] == ["step"]


def test_ramp_thins_out_towards_its_slow_end() -> None:
    found = list(arrivals.arrivals(arrivals.ramp(1.0, 3.0, 100.0), arrivals.even()))
    first_half = sum(arrival.offset_s < 50.0 for arrival in found)
    assert (first_half, len(found) - first_half) == (75, 125)


@pytest.mark.parametrize("duration_s", [7.0, 30.0, 64.0, 90.0])
def test_bursts_end_each_period(duration_s: float) -> None:
    segments = arrivals.burst(2.0, 4.0, duration_s, every_s=30.0, length_s=5.0)
    assert total_s(segments) == pytest.approx(duration_s)
    start_s = 0.0
    for segment in segments:
        quiet = start_s % 30.0 < 25.0
        assert segment.phase == ("quiet" if quiet else "burst")
        assert segment.rate_from == segment.rate_to == (2.0 if quiet else 8.0)
        start_s += segment.duration_s


def test_nothing_expected_takes_no_time_even_from_a_standstill() -> None:
    assert Segment(phase="", duration_s=9.0, rate_from=0.0, rate_to=1.0).time_of(0.0) == 0.0
