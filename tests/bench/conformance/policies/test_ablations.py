"""The product's law with a part taken away."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.conformance.policies.ablations import (
    ABLATIONS,
    Ablated,
    Ablation,
    unfelt,
    unmodelled,
    with_profile,
    with_replicas,
)
from paceline_operator.api.v1alpha1 import Mode
from paceline_operator.autopilot.vocabulary.fleet import FleetObservation
from paceline_operator.autopilot.vocabulary.memory import Bursts, Memory, Regret
from paceline_operator.autopilot.vocabulary.window import Latency, SloCounts, slo_key
from tests.bench.conformance.policies.observed import fleet, histogram, learned, pod
from tests.operator.autopilot.build import TTFT, auto

LATE = {slo_key(TTFT, "TTFT", 1000): SloCounts(good=10.0, bad=90.0)}


def late_fleet() -> FleetObservation:
    """First tokens are late for a minute, all else is calm."""
    before = (replace(w, start_s=w.start_s - 30.0, end_s=w.end_s - 30.0) for w in learned())
    felt = tuple(
        replace(
            window,
            slo=LATE,
            histograms={**window.histograms, Latency.TTFT: histogram(3.0)},
        )
        for window in (*before, *learned())
    )
    return replace(fleet((pod(1), pod(2)), slices=felt), now_s=1000.0)


def test_without_feelings_only_the_work_is_seen() -> None:
    seen = unfelt(late_fleet())
    for window in seen.slices:
        assert window.slo == {}
        assert Latency.TTFT not in window.histograms
        assert Latency.GENERATION_TOKENS in window.histograms
        assert window.moments().count == 2


def test_without_moments_there_is_nothing_to_learn_from() -> None:
    seen = unmodelled(late_fleet())
    assert all(window.moments().count == 0 and window.slo == LATE for window in seen.slices)


def test_the_whole_law_answers_late_first_tokens_and_feed_forward_does_not() -> None:
    whole = Ablated(auto(itl_ms=None, tuning_mode=Mode.OFF), Ablation())
    blind = Ablated(auto(itl_ms=None, tuning_mode=Mode.OFF), ABLATIONS["ours-feed-forward-only"])
    seen = late_fleet()
    assert whole.decide(seen, 1000.0).replicas == 3
    assert blind.decide(seen, 1000.0).replicas is None


def test_switches_of_the_policy() -> None:
    policy = auto()
    assert ABLATIONS["ours-without-tuning"].policy(policy).tuning_mode is Mode.OFF
    fixed = with_replicas(5)(policy)
    assert (fixed.scaling_mode, fixed.replicas) == (Mode.OFF, 5)
    assert with_profile("llama-3-8b-a100")(policy).profile == "llama-3-8b-a100"


@pytest.mark.parametrize(
    "name",
    [
        "ours-without-trim",
        "ours-without-correction",
        "ours-without-bursts",
        "ours-without-regret",
    ],
)
def test_what_was_learned_by_feedback_is_forgotten(name: str) -> None:
    learnt = Memory(
        margin=0.3,
        capacity_factor=0.5,
        proven_budget=512,
        bursts=Bursts(lasted_s=30.0),
        regret=Regret(at_s=900.0, replicas=4, rps=2.0),
    )
    kept = ABLATIONS[name].keeps(learnt)
    assert kept.proven_budget == 512
    assert (kept.margin == 0.10) is (name == "ours-without-trim")
    assert (kept.capacity_factor == 1.0) is (name == "ours-without-correction")
    assert (kept.bursts == Bursts()) is (name == "ours-without-bursts")
    assert (kept.regret is None) is (name == "ours-without-regret")


def test_memory_is_forgotten_after_each_tick() -> None:
    part = Ablated(auto(), ABLATIONS["ours-without-trim"])
    part._whole.memory = Memory(margin=0.3)
    part.decide(fleet(2), 1000.0)
    assert part._whole.memory.margin == Memory().margin
