from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline_operator.autopilot.demand.trend import Part, carried_on


def parts(rate: Callable[[float], float], length_s: float = 300.0) -> list[Part]:
    """Parts of 5 s that end at 0, of a rate that depends on the time."""
    count = int(length_s / 5.0)
    starts = [5.0 * (n - count) for n in range(count)]
    return [Part(start, start + 5.0, 5.0 * rate(start + 2.5)) for start in starts]


def ahead(found: list[Part], until_s: float = 100.0, sigmas: float = 0.0) -> float:
    return carried_on(found, 1.0, until_s=until_s, part_s=30.0, sigmas=sigmas)


def test_a_line_is_carried_on_as_far_as_it_is_proven() -> None:
    ramp = parts(lambda time_s: 20.0 + time_s / 50.0)
    assert ahead(ramp) == pytest.approx(22.0)
    # Mean 17 over 300 s; 250 s from their middle. The variance of a slope over evenly spread
    # time is 12 / length^3 of what a rate varies by in a second.
    sigma = (17.0 / 300.0 + 250.0**2 * 12.0 * 17.0 / 300.0**3) ** 0.5
    assert ahead(ramp, sigmas=2.0) == pytest.approx(22.0 - 2.0 * sigma, rel=1e-3)


def test_parts_of_unlike_lengths_weigh_as_long_as_they_are() -> None:
    fine = parts(lambda time_s: 20.0 + time_s / 50.0)
    coarse = [Part(-300.0, -240.0, sum(part.requests for part in fine[:12])), *fine[12:]]
    assert ahead(coarse) == pytest.approx(ahead(fine), rel=1e-2)


@pytest.mark.parametrize("at_s", [-240.0, -150.0, -60.0])
def test_a_step_is_no_line(at_s: float) -> None:
    assert ahead(parts(lambda time_s: 30.0 if time_s > at_s else 10.0)) == 0.0


def test_a_falling_load_is_carried_on_too() -> None:
    assert ahead(parts(lambda time_s: 10.0 - time_s / 100.0)) == pytest.approx(9.0)


@pytest.mark.parametrize("found", [[], parts(lambda _: 10.0, 5.0), parts(lambda _: 10.0, 55.0)])
def test_a_minute_at_least_is_needed(found: list[Part]) -> None:
    assert ahead(found) == 0.0


def test_nothing_offered_proves_nothing() -> None:
    assert ahead(parts(lambda _: 0.0)) == 0.0


@given(st.lists(st.floats(0.0, 1e4), min_size=12, max_size=60), st.floats(0.0, 600.0))
def test_what_is_proven_is_never_more_than_the_line(rates: list[float], until_s: float) -> None:
    found = [Part(5.0 * n, 5.0 * n + 5.0, 5.0 * rate) for n, rate in enumerate(rates)]
    line, proven = ahead(found, until_s + 300.0), ahead(found, until_s + 300.0, sigmas=2.5)
    assert proven <= line
