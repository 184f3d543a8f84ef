"""What holds a move although it is wanted, and what passes all the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from paceline_operator.api.choice import FreezeScope, Mode, Pause
from paceline_operator.autopilot import pilot
from paceline_operator.autopilot.learning import learned
from paceline_operator.autopilot.situation import restraint
from paceline_operator.autopilot.situation.situation import understand
from paceline_operator.autopilot.vocabulary.decision import (
    Action,
    Decision,
    Knob,
    Reason,
    SetTunables,
    Tick,
)
from paceline_operator.autopilot.vocabulary.fleet import (
    Allowance,
    FleetObservation,
    PodTunables,
    Tunables,
)
from paceline_operator.autopilot.vocabulary.memory import Memory
from paceline_operator.autopilot.vocabulary.move import Move
from paceline_operator.autopilot.vocabulary.policy import Freeze, Policy, Schedule
from paceline_operator.autopilot.vocabulary.recurrence import Recurrence
from paceline_operator.autopilot.vocabulary.window import (
    Counter,
    Histogram,
    Latency,
    StepClass,
    Window,
)
from tests.operator.autopilot.build import auto, fleet, moments, pod, window
from tests.operator.autopilot.knobs.test_itl_rules import seen as slow_steps
from tests.operator.autopilot.test_pilot import NOW, calm, late_first_tokens, rested, scaled

# NOW is 00:16:40; the cold start is 15 s, so that orders go out 45 s ahead.
OPEN = Recurrence(start="10 0 * * *", duration_s=1200.0)
SOON = Recurrence(start="17 0 * * *", duration_s=600.0)
LATER = Recurrence(start="18 0 * * *", duration_s=600.0)


LAUNCH = (Freeze(name="launch", recurrence=OPEN, scope=FreezeScope.ALL),)


def freezing(scope: FreezeScope = FreezeScope.ALL, **more: Any) -> Policy:
    return auto(freezes=(Freeze(name="launch", recurrence=OPEN, scope=scope),), **more)


def raising(recurrence: Recurrence, **more: Any) -> Policy:
    day = Schedule(name="day", recurrence=recurrence, min_replicas=5)
    return auto(schedules=(day,), **more)


def crowded(**more: Any) -> FleetObservation:
    """Three pods that get far more than they can serve."""

    def busy(end_s: float) -> Window:
        return window(
            end_s - 5,
            end_s,
            steps={
                StepClass.MIXED: moments(*[(448, 64, 30000, 300000, 0.3)] * 15),
                StepClass.DECODE_ONLY: moments(*[(0, 64, 30000, 0, 0.05)] * 10),
            },
            counters={
                Counter.REQUESTS_RECEIVED: 400.0,
                Counter.PROMPT_TOKENS_RECEIVED: 400000.0,
                Counter.REQUESTS_FINISHED: 50.0,
                Counter.STEPS_AT_BUDGET: 15.0,
            },
        )

    slices = tuple(busy(NOW - 5.0 * n) for n in reversed(range(36)))
    return fleet(**{"pods": 3, "slices": slices, **more})


def live(tick: Tick) -> Decision:
    return next(d for d in tick.decisions if d.knob is not Knob.REPLICAS)


@pytest.mark.parametrize("scope", list(FreezeScope))
def test_a_freeze_holds_a_scale_in_and_says_what_it_would_have_been(scope: FreezeScope) -> None:
    decision = scaled(freezing(scope), calm(), rested())
    assert (decision.action, decision.reason, decision.guard) == (
        Action.HOLD, Reason.FROZEN, Reason.FROZEN,
    )  # fmt: skip
    assert decision.message.startswith(
        'Not done (frozen by the window "launch" until 00:30 UTC). Replicas 3 -> 2: '
    )


def test_a_freeze_of_all_moves_holds_a_scale_out_and_is_told_as_a_limit() -> None:
    tick = pilot.step(freezing(), crowded(), Memory(), NOW)
    decision = next(d for d in tick.decisions if d.knob is Knob.REPLICAS)
    assert (decision.action, decision.reason) == (Action.HOLD, Reason.FROZEN)
    assert tick.scaling_limit is not None
    assert (tick.scaling_limit.reason, tick.scaling_limit.expires_s) == (Reason.FROZEN, 1800.0)


def test_a_freeze_inwards_lets_replicas_and_budgets_move() -> None:
    tick = pilot.step(freezing(FreezeScope.IN), crowded(), Memory(), NOW)
    free = pilot.step(auto(), crowded(), Memory(), NOW)
    assert tick.actions == free.actions
    assert any(d.action is Action.SCALE_OUT for d in tick.decisions)


def test_a_freeze_lets_a_squeeze_end() -> None:
    """It was made for a time only: for six hours eight sequences of 64 would be no freeze."""
    squeezed = Memory(squeezed_seqs=32, squeezed_replicas=2, lowered_at_s=NOW - 60)
    seen = calm(desired_tunables=Tunables(max_num_batched_tokens=512, max_num_running_seqs=16))
    tick = pilot.step(freezing(), seen, squeezed, NOW)
    assert (live(tick).reason, live(tick).applied) == (Reason.CAPACITY_ARRIVED, True)
    assert tick.memory.squeezed_seqs is None


def test_limits_and_manual_values_pass_a_freeze() -> None:
    outside = calm(
        desired_tunables=Tunables(max_num_batched_tokens=4096, max_num_running_seqs=64),
        allowance=Allowance(knobs=False, out=0, inward=0),
    )
    tick = pilot.step(freezing(max_replicas=2), outside, rested(), NOW)
    assert (live(tick).reason, live(tick).applied) == (Reason.OUTSIDE_LIMITS, True)
    decision = next(d for d in tick.decisions if d.knob is Knob.REPLICAS)
    assert (decision.reason, decision.applied, decision.after) == (Reason.ABOVE_MAXIMUM, True, 2)
    manual = scaled(freezing(scaling_mode=Mode.OFF, replicas=4), outside, rested())
    assert (manual.reason, manual.applied) == (Reason.MANUAL_VALUE, True)


def test_a_schedule_is_ordered_ahead_whatever_holds_other_moves() -> None:
    held = calm(allowance=Allowance(knobs=False, out=0, inward=0))
    policy = raising(SOON, pause=Pause.ALL, freezes=(Freeze(name="f", recurrence=OPEN),))
    decision = scaled(policy, held, rested())
    assert (decision.reason, decision.after, decision.applied) == (Reason.SCHEDULE, 5, True)
    assert decision.message == (
        'Replicas 3 -> 5: the schedule "day" asks for at least 5 from 00:17 UTC on, and a '
        "replica takes 15 s to serve."
    )
    assert (decision.inputs["minReplicas"], decision.inputs["schedule"]) == (5, "day")


def test_a_schedule_that_begins_later_than_a_cold_start_raises_nothing_yet() -> None:
    assert scaled(raising(LATER), calm(), rested()).action is Action.SCALE_IN


def test_a_schedule_in_force_is_told_as_a_limit_and_holds_replicas() -> None:
    tick = pilot.step(raising(OPEN), calm(pods=5), rested(), NOW)
    decision = next(d for d in tick.decisions if d.knob is Knob.REPLICAS)
    assert (decision.action, decision.reason) == (Action.HOLD, Reason.AT_MINIMUM)
    assert tick.scaling_limit is not None
    assert (tick.scaling_limit.reason, tick.scaling_limit.expires_s) == (Reason.SCHEDULE, 1800.0)
    assert tick.timetable is not None
    assert (tick.timetable.min_replicas, tick.timetable.next_min_replicas) == (5, 1)


def test_a_scheduled_minimum_is_no_demand_that_outlasts_it() -> None:
    tick = pilot.step(raising(OPEN), calm(pods=5), rested(), NOW)
    assert tick.memory.recommended[-1].replicas == 1


def test_recommend_shows_what_a_schedule_asks_for_and_does_not_do_it() -> None:
    decision = scaled(raising(OPEN, scaling_mode=Mode.RECOMMEND), calm(), rested())
    assert (decision.after, decision.applied, decision.guard) == (5, False, Reason.RECOMMEND_ONLY)
    assert decision.reason is Reason.SCHEDULE


def test_the_limit_on_changes_holds_and_says_until_when() -> None:
    spent = Allowance(knobs=False, out=0, inward=0, until_s=NOW + 20)
    decision = scaled(auto(), calm(allowance=spent), rested())
    assert (decision.action, decision.reason) == (Action.HOLD, Reason.BLAST_RADIUS)
    assert decision.message.startswith(
        "Not done (the limit of changes a minute over all services is reached; more from "
        "00:17:00 UTC on). Replicas 3 -> 2: "
    )
    tick = pilot.step(auto(), crowded(allowance=spent), Memory(), NOW)
    assert not any(isinstance(each, SetTunables) for each in tick.actions)
    assert tick.scaling_limit is not None
    assert tick.scaling_limit.reason is Reason.BLAST_RADIUS


def test_the_limit_on_changes_lets_a_part_of_a_move_pass() -> None:
    free = scaled(auto(), crowded(), Memory())
    assert free.after is not None
    assert free.after > 4
    decision = scaled(auto(), crowded(allowance=Allowance(out=1, until_s=NOW + 9)), Memory())
    assert (decision.action, decision.after, decision.guard) == (
        Action.SCALE_OUT, 4, Reason.BLAST_RADIUS,
    )  # fmt: skip
    assert f"Only 1 of {free.after - 3} for now" in decision.message


@pytest.mark.parametrize("mode", [Mode.OFF, Mode.RECOMMEND])
def test_who_lowers_a_mode_is_said(mode: Mode) -> None:
    own = auto(scaling_mode=mode, tuning_mode=mode, replicas=3, max_replicas=999)
    lowered = replace(own, scaling_lowered=True, tuning_lowered=True)
    outside = crowded(
        desired_tunables=Tunables(max_num_batched_tokens=4096, max_num_running_seqs=64)
    )
    said = "the installation allows no more (maxMode)"
    for policy, is_said in ((own, False), (lowered, True)):
        tick = pilot.step(policy, outside, Memory(), NOW)
        assert not tick.actions
        assert (said in live(tick).message) is is_said
        assert tick.scaling_limit is not None
        assert (said in tick.scaling_limit.message) is is_said


def test_no_replica_leaves_while_edges_leave_open_whether_an_objective_holds() -> None:
    found = Histogram((0.1, 0.5, 2.0, float("inf")), (4.0, 0.0, 1.0, 0.0), 1.0)
    seen = calm()
    slices = tuple(replace(w, slo={}, histograms={Latency.TTFT: found}) for w in seen.slices)
    held = scaled(auto(itl_ms=None), replace(seen, slices=slices), rested())
    assert (held.action, held.reason) == (Action.HOLD, Reason.COARSE_HISTOGRAM)


def test_a_budget_that_failed_is_taken_back_in_a_freeze_too() -> None:
    s = understand(freezing(), calm(), rested(), NOW)
    back = Move(
        knob=Knob.BUDGET,
        before=512,
        after=448,
        reason=Reason.CANARY_ROLLED_BACK,
        message="",
        takes_back=True,
    )
    assert restraint.of_live_knobs(s, back) is None
    held = restraint.of_live_knobs(
        s, replace(back, reason=Reason.ABOVE_MODEL_CAP, takes_back=False)
    )
    assert held is not None
    assert held.reason is Reason.FROZEN


TAKEN = PodTunables(
    effective=512, floor=80, ceiling=2048, step=16, running_seqs=64, running_ceiling=64
)


def full_steps(given: Policy) -> FleetObservation:
    """ITL is missed in full steps at the cap."""
    base = slow_steps(20, 60, good=80)
    cap = understand(given, base, learned(given, base, Memory(), NOW), NOW).cap
    assert cap is not None
    full = {Counter.STEPS_AT_BUDGET: 9.0}
    return replace(
        base,
        pods=tuple(pod(n, tunables=replace(TAKEN, effective=cap)) for n in (1, 2)),
        desired_tunables=Tunables(max_num_batched_tokens=cap, max_num_running_seqs=64),
        slices=tuple(replace(w, counters={**w.counters, **full}) for w in base.slices),
    )


@pytest.mark.parametrize(
    ("more", "moves"),
    [({}, True), ({"tuning_mode": Mode.RECOMMEND}, False), ({"freezes": LAUNCH}, False)],
)
def test_what_nobody_moves_winds_no_margin_up(more: dict[str, Any], moves: bool) -> None:
    """The integral grows where something can come of it."""
    given = auto(None, 100)
    after = pilot.step(
        replace(given, **more), full_steps(given), Memory(margin_at_s=NOW - 10), NOW
    ).memory
    assert (after.margin > 0.10) is moves


def test_a_freeze_holds_a_larger_budget() -> None:
    given, seen = auto(1000, None), late_first_tokens()
    free = live(pilot.step(given, seen, rested(), NOW))
    assert (free.action, free.applied) == (Action.RAISE, True)
    held = live(pilot.step(replace(given, freezes=LAUNCH), seen, rested(), NOW))
    assert (held.action, held.reason) == (Action.HOLD, Reason.FROZEN)
