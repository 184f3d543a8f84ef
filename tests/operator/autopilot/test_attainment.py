from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline_operator.api.v1alpha1 import SloMetric
from paceline_operator.autopilot.attainment import measure, measure_lately, wilson
from paceline_operator.autopilot.policy import Objective
from paceline_operator.autopilot.window import Histogram, Latency, SloCounts, StepClass, Window
from tests.operator.autopilot.build import fleet, moments, window

TTFT = Objective(name="t", metric=SloMetric.TTFT, target_ms=500)
ITL = Objective(name="i", metric=SloMetric.ITL, target_ms=50)


@given(st.floats(0, 1), st.floats(1, 1e5))
def test_the_interval_holds_the_share(share: float, samples: float) -> None:
    low, high = wilson(share, samples)
    assert 0 <= low <= share + 1e-9
    assert share - 1e-9 <= high <= 1


def test_known_interval() -> None:
    assert wilson(0.9, 100, 1.645) == pytest.approx((0.840, 0.939), abs=1e-3)
    assert wilson(0.5, 0) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("good", "bad", "met"),
    [(96, 4, True), (95, 5, True), (93, 7, None), (80, 20, False), (0, 0, None), (2, 1, None)],
)
def test_only_proof_counts_as_missed(good: int, bad: int, met: bool | None) -> None:
    found = measure(TTFT, window(slo={"t@500": SloCounts(good, bad)}))
    assert found.met is met
    assert found.samples == good + bad


def test_steps_are_the_samples_of_itl() -> None:
    seen = window(
        slo={"i@50": SloCounts(8000, 2000)},
        steps={StepClass.MIXED: moments(*[(10, 5, 100, 100, 0.06)] * 40)},
    )
    assert measure(ITL, seen).samples == 40


def test_counts_against_another_target_do_not_count() -> None:
    assert measure(TTFT, window(slo={"t@800": SloCounts(5, 5)})).attainment is None


def test_without_counters_the_histogram_answers() -> None:
    histogram = Histogram((0.25, 0.5, float("inf")), (60, 20, 20), 30.0)
    found = measure(TTFT, window(histograms={Latency.TTFT: histogram}))
    assert found.attainment == pytest.approx(0.8)
    assert found.measured_ms == pytest.approx(500)


def test_the_window_grows_until_there_are_samples() -> None:
    def five(at: float) -> Window:
        return window(at, at + 5, slo={"t@500": SloCounts(5, 0)})

    seen = fleet(slices=tuple(five(700.0 + 5 * n) for n in range(60)))
    found = measure_lately(TTFT, seen)
    assert found.window_s == 120
    assert found.samples == 120
