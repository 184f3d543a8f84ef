from __future__ import annotations

from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from paceline_operator.simulator.loads.rates import (
    Burst,
    Constant,
    Diurnal,
    OnOff,
    Piecewise,
    Ramp,
    Rates,
    Segment,
    Step,
)

SHAPES: dict[str, tuple[Rates, float, float]] = {
    # Shape, its length, the requests expected of it: both computed by hand.
    "constant": (Constant(rps=2.0, duration_s=50.0), 50.0, 100.0),
    "piecewise": (Piecewise(parts=(Segment(10, 0, 2), Segment(5, 4, 4))), 15.0, 30.0),
    "step": (Step(rps=2.0, before_s=100.0, step_s=50.0, after_s=30.0), 180.0, 560.0),
    "ramp": (Ramp(rps=1.0, before_s=10, ramp_s=20, top_s=30, after_s=40), 120.0, 270.0),
    "burst": (Burst(rps=1.0, every_s=60.0, burst_s=10.0, bursts=3), 180.0, 270.0),
    "on-off": (OnOff(rps=3.0, on_s=100.0, pauses=2), 2100.0, 900.0),
    "diurnal": (Diurnal(mean_rps=2.0, day_s=600.0, days=2, noise=0.0), 1200.0, 2400.0),
}


def rate_at(shape: Rates, at_s: float) -> float:
    for segment in shape.segments(Random(1)):
        if at_s < segment.duration_s:
            inside = at_s / segment.duration_s
            return segment.from_rps + inside * (segment.to_rps - segment.from_rps)
        at_s -= segment.duration_s
    raise AssertionError("after its end")


@pytest.mark.parametrize(("shape", "length_s", "requests"), SHAPES.values(), ids=SHAPES)
def test_length_and_expected_requests(shape: Rates, length_s: float, requests: float) -> None:
    segments = list(shape.segments(Random(1)))
    assert shape.duration_s == pytest.approx(length_s)
    assert sum(s.duration_s for s in segments) == pytest.approx(length_s)
    assert sum(s.expected for s in segments) == pytest.approx(requests)


@pytest.mark.parametrize(
    ("name", "at_s", "rps"),
    [
        ("step", 99.0, 2.0), ("step", 101.0, 6.0), ("step", 151.0, 2.0),
        ("ramp", 20.0, 2.5), ("ramp", 45.0, 4.0), ("ramp", 70.0, 2.5), ("ramp", 100.0, 1.0),
        ("burst", 49.0, 1.0), ("burst", 51.0, 4.0), ("burst", 61.0, 1.0),
        ("on-off", 99.0, 3.0), ("on-off", 101.0, 0.0), ("on-off", 999.0, 0.0),
        ("on-off", 1001.0, 3.0), ("on-off", 2099.0, 3.0),
        ("diurnal", 0.0, 0.8), ("diurnal", 300.0, 3.2), ("diurnal", 600.0, 0.8),
    ],
)  # fmt: skip
def test_rate_at(name: str, at_s: float, rps: float) -> None:
    assert rate_at(SHAPES[name][0], at_s) == pytest.approx(rps)


def test_noise_keeps_the_mean_and_comes_again_with_its_seed() -> None:
    noisy = Diurnal(mean_rps=2.0, swing=0.0, day_s=60_000.0, noise=0.3)
    drawn = [segment.from_rps for segment in noisy.segments(Random(7))]
    assert sum(drawn) / len(drawn) == pytest.approx(2.0, rel=0.04)
    assert max(drawn) > 1.5 * min(drawn)
    assert drawn == [segment.from_rps for segment in noisy.segments(Random(7))]
    assert drawn != [segment.from_rps for segment in noisy.segments(Random(8))]


@given(st.floats(1, 1e4), st.floats(0, 100), st.floats(0, 100), st.floats(0, 1))
@example(1.0, 5e-324, 8e-200, 1.0)
@example(1.0, 0.0, 8e-200, 1.0)
@example(1.0, 0.0, 2.0, 5e-324)
@example(1e4, 0.0, 100.0, 1e-320)
def test_time_inverts_the_expected_count(
    duration_s: float, from_rps: float, to_rps: float, share: float
) -> None:
    segment = Segment(duration_s, from_rps, to_rps)
    at_s = segment.time_of(share * segment.expected)
    slope = (to_rps - from_rps) / duration_s
    counted = from_rps * at_s + slope * at_s**2 / 2
    assert 0 <= at_s <= duration_s * (1 + 1e-6)
    assert counted == pytest.approx(share * segment.expected, rel=1e-6, abs=1e-6)
