from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from paceline_operator.api.v1alpha1 import Mode
from paceline_operator.autopilot import pilot
from paceline_operator.autopilot.knobs.itl_rules import (
    above_cap,
    itl_feedback,
    paced_feedback,
    restore,
    squeeze,
)
from paceline_operator.autopilot.learning import learned
from paceline_operator.autopilot.situation.situation import Situation, understand
from paceline_operator.autopilot.vocabulary.decision import Action, Knob, Reason
from paceline_operator.autopilot.vocabulary.fleet import FleetObservation, Tunables
from paceline_operator.autopilot.vocabulary.memory import Memory
from paceline_operator.autopilot.vocabulary.window import (
    Counter,
    SloCounts,
    StepClass,
    Window,
    slo_key,
)
from tests.operator.autopilot.build import ITL, auto, fleet, moments, pod, window

NOW = 1000.0


def seen(decode_ms: float, mixed_ms: float, good: float, **more: Any) -> FleetObservation:
    """Three minutes of steps: ten sequences decode, and prompts of 100 tokens come in between."""

    def cut(end_s: float) -> Window:
        decode = [(0, rows, 200 * rows, 0, 1e-3 * decode_ms * rows / 10) for rows in (9, 10, 11)]
        mixed = [
            (size, 10, 2000, 100 * size, 1e-3 * mixed_ms * size / 100) for size in (90, 100, 110)
        ]
        return window(
            end_s - 5,
            end_s,
            steps={StepClass.DECODE_ONLY: moments(*decode * 10),
                   StepClass.MIXED: moments(*mixed * 5)},
            counters={Counter.REQUESTS_RECEIVED: 5.0, Counter.PROMPT_TOKENS_RECEIVED: 500.0},
            slo={slo_key(ITL, "ITL", 100): SloCounts(good, 100 - good)},
        )  # fmt: skip

    slices = tuple(cut(NOW - 5.0 * n) for n in reversed(range(36)))
    return fleet(**{"slices": slices, **more})


def situation(fleet_: FleetObservation, memory: Memory | None = None) -> Situation:
    given = auto(None, 100)
    known = learned(given, fleet_, memory or Memory(), NOW)
    return understand(given, fleet_, known, NOW)


def test_a_budget_whose_floor_breaks_the_target_stays_while_itl_is_met() -> None:
    s = situation(seen(40, 300, good=99))
    assert s.cap is None
    assert s.knobs.max_num_batched_tokens > s.ladder().floor
    assert above_cap(s) is None


def test_one_cut_moves_the_margin_a_little() -> None:
    """Steps of 374 tokens scatter: half of them are far too long, though their mean is not."""
    uneven = moments(*[(374, 10, 2000, 37400, 0.01), (374, 10, 2000, 37400, 0.11)] * 10)
    base = seen(20, 60, good=50)
    steps = {StepClass.MIXED: uneven}
    slices = tuple(replace(w, steps={**w.steps, **steps}) for w in base.slices)
    s = situation(replace(base, slices=slices))
    move = itl_feedback(s)
    assert move is not None
    assert move.memory is not None
    assert move.memory.margin == pytest.approx(s.memory.margin + 0.05)


def test_a_squeeze_is_what_the_model_says_helps() -> None:
    move = squeeze(situation(seen(140, 200, good=20)))
    assert move is not None
    assert move.reason is Reason.ITL_DECODE_BOUND
    assert move.tunables is not None
    assert 5 <= move.tunables.max_num_running_seqs <= 7


def test_no_second_squeeze_before_the_older_sequences_have_ended() -> None:
    knobs = Tunables(max_num_batched_tokens=512, max_num_running_seqs=9)
    base = seen(140, 200, good=20, desired_tunables=knobs)
    busy = replace(base, pods=(pod(1, running=11), pod(2)))
    before = Memory(squeezed_seqs=64, squeezed_replicas=2, lowered_at_s=NOW - 30)
    waiting, moved = squeeze(situation(busy, before)), squeeze(situation(base, before))
    assert waiting is not None
    assert (waiting.reason, waiting.holds) == (Reason.COOLDOWN, True)
    assert moved is not None
    assert not moved.holds


@pytest.mark.parametrize("slow", [1200.0, 3000.0])
def test_sequences_are_not_squeezed_where_one_alone_is_too_slow(slow: float) -> None:
    move = squeeze(situation(seen(slow, slow + 50, good=0)))
    assert move is not None
    assert (move.reason, move.holds) == (Reason.INFEASIBLE, True)


def test_decoding_that_is_too_slow_asks_for_a_replica_and_leaves_the_budget() -> None:
    """Without a squeeze too: tuning may be left to the user. Hardly anything comes in anew."""
    given = replace(auto(None, 100), tuning_mode=Mode.OFF)
    busy = seen(140, 60, good=20)
    few = {Counter.REQUESTS_RECEIVED: 0.1, Counter.PROMPT_TOKENS_RECEIVED: 10.0}
    busy = replace(busy, slices=tuple(replace(w, counters=few) for w in busy.slices))
    tick = pilot.step(given, busy, Memory(), NOW)
    decision = next(d for d in tick.decisions if d.knob is Knob.REPLICAS)
    assert (decision.action, decision.reason) == (Action.SCALE_OUT, Reason.ITL_DECODE_BOUND)
    hold = itl_feedback(situation(seen(140, 200, good=20)))
    assert hold is not None
    assert (hold.holds, hold.reason) == (True, Reason.ITL_DECODE_BOUND)


@pytest.mark.parametrize(
    ("decode_ms", "mixed_ms", "good", "reason"),
    [
        (40, 60, 99, None),
        (40, 140, 60, Reason.ITL_PREFILL_BOUND),
        (140, 200, 20, Reason.ITL_DECODE_BOUND),
        (20, 40, 60, Reason.ITL_UNEXPLAINED),
    ],
)
def test_with_pacing_what_misses_itl_is_said(
    decode_ms: float, mixed_ms: float, good: float, reason: Reason | None
) -> None:
    move = paced_feedback(situation(seen(decode_ms, mixed_ms, good=good)))
    assert (None if move is None else move.reason) is reason
    assert move is None or move.holds


def test_a_cap_that_wavers_moves_no_budget() -> None:
    """Down only once half of the margin is gone: 95 ms of a target of 100 with 10 % kept free."""
    held, cut = 0, 0
    cap = situation(seen(20, 50, good=99)).cap
    assert cap is not None
    for budget in range(cap, cap + 160, 16):
        knobs = Tunables(max_num_batched_tokens=budget, max_num_running_seqs=64)
        s = situation(seen(20, 50, good=99, desired_tunables=knobs))
        assert s.cap is not None
        if budget <= s.cap:
            continue
        full_ms = s.plant.full_ms(budget)
        move = above_cap(s)
        if full_ms <= 100 * (1 - s.margin / 2):
            held += 1
            assert move is None
        else:
            cut += 1
            assert move is not None
            assert move.after == s.cap
    assert held > 0
    assert cut > 0


@pytest.mark.parametrize(("batch", "ends"), [(0, False), (9, True)])
def test_a_squeeze_ends_whatever_a_batch_tier_has_waiting(batch: int, ends: bool) -> None:
    base = seen(20, 60, good=100)
    queued = replace(base, pods=(pod(1, waiting=9, batch_waiting=batch), pod(2)))
    before = Memory(squeezed_seqs=64, squeezed_replicas=2, lowered_at_s=NOW - 60)
    move = restore(situation(queued, before))
    assert (move is not None) is ends
