from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline_operator.autopilot.knobs.trial_rules import LONGEST_S
from paceline_operator.autopilot.vocabulary.slices import SHARES_KEPT_S, Slices
from paceline_operator.autopilot.vocabulary.window import (
    Counter,
    Histogram,
    Latency,
    PodShare,
    SloCounts,
    StepClass,
    Window,
    merge,
    without,
)
from tests.operator.autopilot.build import moments, window

INFINITE = float("inf")
counts = st.lists(st.integers(0, 50), min_size=4, max_size=4)


def histogram(values: list[int]) -> Histogram:
    return Histogram((1.0, 2.0, 4.0, INFINITE), tuple(float(v) for v in values), float(sum(values)))


@given(counts, st.floats(0.01, 0.99))
def test_quantile_and_share_below_agree(values: list[int], share: float) -> None:
    made = histogram([*values[:3], 0])
    value = made.quantile(share)
    if value is not None:
        assert made.below(value) == pytest.approx(share * made.samples, abs=1e-6)


@given(counts, counts)
def test_histograms_add(first: list[int], second: list[int]) -> None:
    total = histogram(first) + histogram(second)
    assert total.samples == sum(first) + sum(second)


def test_different_edges_fall_back_to_common_ones() -> None:
    coarse = Histogram((2.0, INFINITE), (3.0, 1.0), 9.0)
    total = histogram([1, 1, 1, 1]) + coarse
    assert total.edges == (2.0, INFINITE)
    assert total.counts == (5.0, 3.0)


@pytest.mark.behaviour(
    "what lies above the last edge is above every target",
    report="vllm-project/vllm#15202: the last edge was too low for the tail",
)
def test_the_open_bucket_is_above_everything() -> None:
    assert histogram([0, 0, 0, 5]).below(100.0) == 0
    assert histogram([0, 0, 0, 5]).quantile(0.5) == 4.0


@pytest.mark.parametrize(("values", "variation"), [([0, 9, 0, 0], 0.0), ([5, 0, 5, 0], 0.51)])
def test_squared_variation(values: list[int], variation: float) -> None:
    assert histogram(values).squared_variation == pytest.approx(variation, abs=0.01)


def test_moments_know_mean_and_spread() -> None:
    seen = moments((10, 2, 0, 0, 0.1), (20, 2, 0, 0, 0.3))
    assert seen.count == 2
    assert seen.mean("p") == 15
    assert seen.spread("t") == pytest.approx(0.1)
    assert seen.product("t", "p") == seen.product("p", "t") == pytest.approx(7.0)


def test_merged_windows_span_all() -> None:
    total = merge([window(0, 5), window(5, 10)])
    assert (total.start_s, total.end_s, total.pod_seconds) == (0, 10, 10)
    assert merge([]).length_s == 0


def test_a_window_without_a_pod_has_only_what_others_added() -> None:
    def part(uid: str, steps: int, late: float) -> Window:
        share = PodShare(
            {StepClass.MIXED: moments(*[(10, 2, 0, 0, 0.1)] * steps)},
            2.0,
            {"x": SloCounts(9, late)},
        )
        counters = {Counter.STEPS_AT_BUDGET: 2.0, Counter.REQUESTS_RECEIVED: 7.0}
        return window(0, 5, steps=share.steps, slo=share.slo, counters=counters, pods={uid: share})

    whole = merge([part("a", 3, 1.0), part("b", 5, 4.0)])
    assert without(whole, {"c"}) is whole
    rest = without(whole, {"b"})
    assert rest.moments().count == 3
    assert rest.slo["x"] == SloCounts(9, 1.0)
    assert rest.count(Counter.STEPS_AT_BUDGET) == 2
    assert rest.count(Counter.REQUESTS_RECEIVED) == 14
    both = merge([whole, replace(whole, start_s=5, end_s=10)])
    assert without(both, {"a"}).moments().count == 10


@pytest.mark.parametrize("every_s", [5.0, 15.0])
def test_only_the_newest_slices_tell_pods_apart(every_s: float) -> None:
    slices = Slices()
    for turn in range(20):
        start_s, share = every_s * turn, PodShare({}, float(turn), {})
        grown = [window(start_s, start_s + every_s, pods={"a": share})]
        made = slices.append(grown, start_s + every_s)
    newest_s = made[-1].end_s
    assert [bool(each.pods) for each in made] == [
        each.end_s > newest_s - SHARES_KEPT_S for each in made
    ]
    assert any(each.pods for each in made)
    assert not all(each.pods for each in made)


def test_the_longest_trial_is_seen_whole() -> None:
    assert SHARES_KEPT_S >= LONGEST_S + 15.0


def test_engines_that_share_no_edge_but_the_last_say_nothing_of_how_prompts_vary() -> None:
    both = Histogram((100.0, inf), (5.0, 5.0), 900.0) + Histogram((50.0, inf), (5.0, 5.0), 900.0)
    assert (both.edges, both.samples, both.total) == ((inf,), 20.0, 1800.0)
    assert both.squared_variation == 0.0


def test_samples_beyond_the_last_common_edge_are_left_out() -> None:
    """Somebody's histogram ends early: what lies beyond is not known of all."""
    both = Histogram((10.0, 20.0), (1.0, 2.0), 40.0) + Histogram((10.0, inf), (4.0, 8.0), 400.0)
    assert (both.edges, both.counts) == ((10.0,), (5.0,))


def test_a_slice_keeps_nothing_of_what_did_not_happen() -> None:
    """Most of a thousand fleets' memory would be the zeros of tiers and steps they do not have."""
    idle = Histogram((1.0, inf), (0.0, 0.0), 0.0)
    seen = window(
        995.0,
        1000.0,
        steps={StepClass.MIXED: moments(), StepClass.DECODE_ONLY: moments((0, 1, 10, 0, 0.01))},
        counters={Counter.REQUESTS_RECEIVED: 2.0, Counter.REQUESTS_REJECTED: 0.0},
        histograms={Latency.TTFT: Histogram((1.0, inf), (2.0, 0.0), 1.0), Latency.TPOT: idle},
        batch={Latency.TTFT: idle},
    )
    (kept,) = Slices().append([seen], 1000.0)
    assert set(kept.steps) == {StepClass.DECODE_ONLY}
    assert set(kept.counters) == {Counter.REQUESTS_RECEIVED}
    assert set(kept.histograms) == {Latency.TTFT}
    assert not kept.batch
    assert kept.moments(StepClass.MIXED).count == kept.count(Counter.REQUESTS_REJECTED) == 0
