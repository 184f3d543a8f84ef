from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline_operator.api.v1alpha1 import SloMetric, Tier
from paceline_operator.autopilot.measurement.attainment import measure, measure_lately, wilson
from paceline_operator.autopilot.vocabulary.policy import Objective
from paceline_operator.autopilot.vocabulary.window import (
    Counter,
    Histogram,
    Latency,
    SloCounts,
    StepClass,
    Window,
    slo_key,
)
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
    found = measure(TTFT, window(slo={slo_key("t", "TTFT", 500): SloCounts(good, bad)}))
    assert found.met is met
    assert found.samples == good + bad


def test_steps_are_the_samples_of_itl() -> None:
    seen = window(
        slo={slo_key("i", "ITL", 50): SloCounts(8000, 2000)},
        steps={StepClass.MIXED: moments(*[(10, 5, 100, 100, 0.06)] * 40)},
    )
    assert measure(ITL, seen).samples == 40


def test_counts_against_another_target_do_not_count() -> None:
    assert (
        measure(TTFT, window(slo={slo_key("t", "TTFT", 800): SloCounts(5, 5)})).attainment is None
    )


@pytest.mark.parametrize(
    "key", [slo_key("t", "E2E", 500), slo_key("t", "TTFT", 500, "batch"), slo_key("u", "TTFT", 500)]
)
def test_counts_of_another_metric_tier_or_name_do_not_count(key: str) -> None:
    assert measure(TTFT, window(slo={key: SloCounts(5, 5)})).attainment is None


def test_an_objective_is_measured_on_requests_of_its_own_tier() -> None:
    quick = Histogram((0.25, 0.5, float("inf")), (10, 0, 0), 1.0)
    slow = Histogram((0.25, 0.5, float("inf")), (0, 0, 10), 60.0)
    batch = replace(TTFT, tier=Tier.BATCH)
    seen = window(histograms={Latency.TTFT: quick}, batch={Latency.TTFT: slow})
    assert measure(TTFT, seen).attainment == 1
    assert measure(batch, seen).attainment == 0
    both = replace(
        seen,
        slo={
            slo_key("t", "TTFT", 500): SloCounts(3, 1),
            slo_key("t", "TTFT", 500, "batch"): SloCounts(1, 3),
        },
    )
    assert measure(TTFT, both).attainment == 0.75
    assert measure(batch, both).attainment == 0.25


def test_without_counters_the_histogram_answers() -> None:
    histogram = Histogram((0.25, 0.5, float("inf")), (60, 20, 20), 30.0)
    found = measure(TTFT, window(histograms={Latency.TTFT: histogram}))
    assert found.attainment == pytest.approx(0.8)
    assert found.measured_ms == pytest.approx(500)


def test_the_window_grows_until_there_are_samples() -> None:
    def five(at: float) -> Window:
        return window(at, at + 5, slo={slo_key("t", "TTFT", 500): SloCounts(5, 0)})

    seen = fleet(slices=tuple(five(700.0 + 5 * n) for n in range(60)))
    found = measure_lately(TTFT, seen)
    assert found.window_s == 120
    assert found.samples == 120


def sampled(at_s: float, good: int = 1) -> Window:
    return window(at_s - 5, at_s, slo={slo_key("t", "TTFT", 500): SloCounts(good, 0)})


@pytest.mark.parametrize(
    ("age_s", "samples", "at_s"),
    [(0, 1, 1000.0), (55, 1, 945.0), (60, 0, 940.0), (290, 0, 710.0)],
)
def test_without_a_sample_in_its_own_window_nothing_is_measured(
    age_s: float, samples: int, at_s: float
) -> None:
    """The window grows for more samples, never to find the first one."""
    last = 1000.0 - age_s
    quiet = (window(t - 5, t) for t in range(int(last) + 5, 1001, 5))
    found = measure_lately(TTFT, fleet(slices=(sampled(last), *quiet)))
    assert (found.samples, found.measured_at_s) == (samples, at_s)
    assert (found.attainment, found.met) == ((1.0, True) if samples else (None, None))
    assert samples or found.measured_ms is None


def test_an_hour_without_scrapes_leaves_no_measurement() -> None:
    """The window ends now, not at the last slice there is."""
    found = measure_lately(TTFT, fleet(slices=(sampled(1000.0, 500),), now_s=4600.0))
    assert (found.samples, found.attainment, found.measured_at_s) == (0, None, 1000.0)


def test_sparse_samples_are_still_counted_together() -> None:
    slices = tuple(sampled(t) for t in (750.0, 850.0, 950.0))
    found = measure_lately(TTFT, fleet(slices=slices))
    assert (found.samples, found.window_s) == (3, 205.0)


EDGES = (0.1, 0.4, 0.6, float("inf"))


def coarse(*counts: float, refused: float = 0.0) -> Window:
    return window(
        histograms={Latency.TTFT: Histogram(EDGES, counts, 1.0)},
        counters={Counter.REQUESTS_REJECTED: refused},
    )


@pytest.mark.parametrize(
    ("counts", "low", "share", "high", "met"),
    [
        ((90, 8, 2, 0), 0.98, 0.99, 1.0, True),
        ((80, 10, 10, 0), 0.90, 0.95, 1.0, None),
        ((50, 20, 20, 10), 0.70, 0.80, 0.90, False),
        ((5, 2, 2, 1), 0.70, 0.80, 0.90, None),
    ],
)
def test_edges_leave_open_what_lies_between_them(
    counts: tuple[float, ...], low: float, share: float, high: float, met: bool | None
) -> None:
    found = measure(TTFT, coarse(*counts))
    assert (found.low, found.attainment, found.high) == pytest.approx((low, share, high))
    assert found.edges_ms == (400.0, 600.0)
    assert found.met is met


def test_a_target_on_an_edge_is_counted_exactly() -> None:
    found = measure(replace(TTFT, target_ms=400), coarse(50, 40, 10, 0))
    assert (found.low, found.attainment, found.high, found.edges_ms) == (0.9, 0.9, 0.9, None)


def test_exact_counts_leave_nothing_open() -> None:
    seen = replace(coarse(9, 0, 0, 1), slo={slo_key("t", "TTFT", 500): SloCounts(7, 3)})
    found = measure(TTFT, seen)
    assert (found.low, found.attainment, found.high, found.edges_ms) == (0.7, 0.7, 0.7, None)


def test_refused_requests_are_missed_though_no_histogram_holds_them() -> None:
    found = measure(TTFT, coarse(60, 0, 0, 0, refused=40.0))
    assert (found.attainment, found.samples, found.met) == (0.6, 100, False)
    assert measure(replace(TTFT, tier=Tier.BATCH), coarse(60, 0, 0, 0, refused=9.0)).samples == 0


def test_an_engine_that_counts_against_the_target_has_counted_its_refusals() -> None:
    """No sample there, and refusals all the same: they were no load of this service's."""
    seen = replace(coarse(0, 0, 0, 0, refused=40.0), slo={slo_key("t", "TTFT", 500): SloCounts()})
    found = measure(TTFT, seen)
    assert (found.attainment, found.samples, found.met) == (None, 0, None)


@given(st.lists(st.floats(0, 1e4), min_size=4, max_size=4), st.integers(1, 2000))
def test_the_figure_shown_lies_between_what_is_possible(counts: list[float], target: int) -> None:
    found = measure(replace(TTFT, target_ms=target), coarse(*counts))
    if found.attainment is not None:
        assert found.low is not None
        assert found.high is not None
        assert found.low - 1e-9 <= found.attainment <= found.high + 1e-9
