"""One call of the control law: what it does with a calm fleet, a late one, one that is stuck."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from paceline_operator.api.v1alpha1 import Mode, Pause, SloMetric, Tier
from paceline_operator.autopilot import pilot
from paceline_operator.autopilot.vocabulary.decision import (
    Action,
    Decision,
    Knob,
    Reason,
    SetReplicas,
    SetTunables,
)
from paceline_operator.autopilot.vocabulary.fleet import DataClass, FleetObservation, Tunables
from paceline_operator.autopilot.vocabulary.memory import Memory, Recommendation
from paceline_operator.autopilot.vocabulary.policy import Objective, Policy
from paceline_operator.autopilot.vocabulary.window import (
    Counter,
    SloCounts,
    StepClass,
    Window,
    slo_key,
)
from tests.operator.autopilot.build import ITL, TTFT, auto, fleet, moments, pod, policy, window

NOW = 1000.0


def calm(**more: Any) -> FleetObservation:
    """Three pods with next to nothing to do, seen for three minutes."""

    def quiet(end_s: float) -> Window:
        return window(
            end_s - 5,
            end_s,
            steps={
                StepClass.MIXED: moments(*[(100, 2, 400, 5000, 0.03)] * 5),
                StepClass.DECODE_ONLY: moments(*[(0, 2, 400, 0, 0.02)] * 50),
            },
            counters={
                Counter.REQUESTS_RECEIVED: 5.0,
                Counter.PROMPT_TOKENS_RECEIVED: 500.0,
                Counter.REQUESTS_FINISHED: 5.0,
            },
            slo={
                slo_key(TTFT, "TTFT", 1000): SloCounts(5, 0),
                slo_key(ITL, "ITL", 100): SloCounts(100, 0),
            },
        )

    slices = tuple(quiet(NOW - 5.0 * n) for n in reversed(range(36)))
    return fleet(**{"pods": 3, "slices": slices, **more})


def rested() -> Memory:
    return Memory(
        recommending_since_s=NOW - 500,
        recommended=(Recommendation(time_s=NOW - 15, replicas=1),),
        replica_at_s=NOW - 15,
        scaled_in_at_s=NOW - 500,
    )


def scaled(given: Policy, seen: FleetObservation, memory: Memory) -> Decision:
    tick = pilot.step(given, seen, memory, NOW)
    return next(d for d in tick.decisions if d.knob is Knob.REPLICAS)


def test_a_calm_fleet_shrinks() -> None:
    decision = scaled(auto(), calm(), rested())
    assert (decision.action, decision.after) == (Action.SCALE_IN, 2)


def guards() -> list[tuple[str, Policy, FleetObservation, Memory, Reason]]:
    starting = pod(9, ready=False, ready_since_s=None, created_s=NOW - 5)
    half_stale = (pod(1), pod(2), pod(3, data=DataClass.STALE))
    base, memory = auto(), rested()
    squeezed = replace(memory, squeezed_seqs=9, lowered_at_s=NOW)
    return [
        ("rollout", base, calm(rolling_out=True), memory, Reason.ROLLOUT),
        ("pending", base, calm(pods=(pod(1), pod(2), starting)), memory, Reason.CAPACITY_PENDING),
        ("stale", base, calm(pods=half_stale), memory, Reason.DATA_STALE),
        ("squeezed", base, calm(), replace(squeezed, squeezed_replicas=2), Reason.KNOB_SQUEEZED),
        ("cooling", base, calm(), replace(memory, scaled_in_at_s=NOW - 59), Reason.COOLDOWN),
        ("restarted", base, calm(), replace(memory, recommending_since_s=NOW - 30),
         Reason.DOWN_WINDOW),
        ("paused", auto(pause=Pause.IN), calm(), memory, Reason.PAUSED),
        ("foreign", base, calm(yielded={"replicas": "hpa"}), memory, Reason.FOREIGN_WRITER),
        ("minimum", auto(min_replicas=3), calm(), memory, Reason.AT_MINIMUM),
        ("off", auto(scaling_mode=Mode.OFF), calm(), memory, Reason.MODE_OFF),
        ("none", policy(None, None, scaling_mode=Mode.AUTO), calm(), memory, Reason.NO_OBJECTIVE),
    ]  # fmt: skip


def test_each_guard_holds_a_scale_in_back() -> None:
    for name, given_policy, seen, memory, reason in guards():
        decision = scaled(given_policy, seen, memory)
        assert decision.action is Action.HOLD, name
        assert decision.reason is reason, f"{name}: {decision.reason} {decision.message}"


SQUEEZED = {"squeezed_seqs": 64, "squeezed_replicas": 3, "lowered_at_s": NOW - 60}


def test_pods_a_quota_refuses_are_not_waited_for_for_ever() -> None:
    ordered = replace(rested(), scaled_out_at_s=NOW - 300)
    seen = calm(desired_replicas=4)
    assert scaled(auto(), seen, ordered).action is Action.SCALE_IN
    lately = replace(ordered, scaled_out_at_s=NOW - 20)
    assert scaled(auto(), seen, lately).reason is Reason.CAPACITY_PENDING


def late_first_tokens(**more: Any) -> FleetObservation:
    seen = calm(**more)
    late = {
        slo_key(TTFT, "TTFT", 1000): SloCounts(20, 20),
        slo_key(ITL, "ITL", 100): SloCounts(100, 0),
    }
    return replace(seen, slices=tuple(replace(w, slo=late) for w in seen.slices))


@pytest.mark.behaviour(
    "objectives on percentiles of latency move budget and replicas by themselves",
    report="vllm-project/aibrix#1022: only raw metrics could be scaled on",
)
def test_whole_answers_that_are_late_move_budget_and_replicas_on_their_own() -> None:
    objective = Objective(name="answer", metric=SloMetric.E2E, target_ms=1000)
    given_policy = replace(auto(max_replicas=20), objectives=(objective,))
    late = {slo_key("answer", "E2E", 1000): SloCounts(20, 20)}
    seen = replace(calm(), slices=tuple(replace(w, slo=late) for w in calm().slices))
    tick = pilot.step(given_policy, seen, rested(), NOW)
    budget = next(d for d in tick.decisions if d.knob is Knob.BUDGET)
    assert (budget.action, budget.reason) == (Action.RAISE, Reason.TTFT_PRESSURE)
    most = Tunables(max_num_batched_tokens=2048, max_num_running_seqs=64)
    decision = scaled(given_policy, replace(seen, desired_tunables=most), rested())
    assert (decision.action, decision.reason) == (Action.SCALE_OUT, Reason.TTFT_QUEUE)


def test_a_batch_tier_that_is_late_and_piles_up_moves_nothing() -> None:
    """It is measured and shown; knobs and replicas follow the interactive tier."""
    nightly = Objective(name="n", metric=SloMetric.TTFT, target_ms=1000, tier=Tier.BATCH)
    base = auto(max_replicas=20)
    given_policy = replace(base, objectives=(*base.objectives, nightly))
    late = {slo_key("n", "TTFT", 1000, "batch"): SloCounts(0, 500)}
    still = calm(pods=tuple(pod(n + 1) for n in range(3)))
    backlog = tuple(replace(p, waiting=900, batch_waiting=900) for p in still.pods)
    seen = replace(
        still, pods=backlog, slices=tuple(replace(w, slo={**w.slo, **late}) for w in still.slices)
    )
    found = pilot.step(given_policy, seen, rested(), NOW)
    without = pilot.step(base, still, rested(), NOW)
    assert next(m for m in found.slo if m.name == "n").met is False
    assert [(d.knob, d.action) for d in found.decisions] == [
        (d.knob, d.action) for d in without.decisions
    ]


def test_no_replica_is_asked_for_while_ordered_ones_are_stuck() -> None:
    given_policy = auto(tuning_mode=Mode.OFF, max_replicas=20)
    more = scaled(given_policy, late_first_tokens(), rested())
    assert (more.reason, more.after) == (Reason.TTFT_QUEUE, 4)
    stuck = pod(9, ready=False, ready_since_s=None, created_s=NOW - 500)
    pods = (pod(1), pod(2), pod(3), stuck)
    decision = scaled(given_policy, late_first_tokens(pods=pods), rested())
    assert decision.action is Action.HOLD


def dark(*numbers: int) -> FleetObservation:
    made = (pod(n, data=DataClass.STALE if n in numbers else DataClass.FRESH) for n in range(1, 11))
    return calm(pods=tuple(made))


@pytest.mark.parametrize("numbers", [(1,), tuple(range(1, 11))])
def test_after_pods_were_dark_the_down_window_begins_anew(numbers: tuple[int, ...]) -> None:
    given_policy, memory = auto(max_replicas=20), rested()
    blind = pilot.step(given_policy, dark(*numbers), memory, NOW)
    assert not [a for a in blind.actions if isinstance(a, SetReplicas)]
    after = replace(calm(pods=10), now_s=NOW + 15)
    tick = pilot.step(given_policy, after, blind.memory, NOW + 15)
    decision = next(d for d in tick.decisions if d.knob is Knob.REPLICAS)
    assert (decision.action, decision.reason) == (Action.HOLD, Reason.DOWN_WINDOW)


def test_a_pass_asked_for_at_once_does_not_break_the_record() -> None:
    """A new spec makes both loops due: their last runs are forgotten, the record is not."""
    decision = scaled(auto(), calm(), replace(rested(), replica_at_s=0.0, knob_at_s=0.0))
    assert decision.action is Action.SCALE_IN


def test_a_squeeze_to_the_value_in_force_ends_like_any_other() -> None:
    """Without a move: the engines take no more than they run with already."""
    tick = pilot.step(auto(), calm(), replace(rested(), **SQUEEZED), NOW)
    assert not [a for a in tick.actions if isinstance(a, SetTunables)]
    assert tick.memory.squeezed_seqs is None


@pytest.mark.parametrize("mode", [Mode.OFF, Mode.RECOMMEND])
def test_tuning_that_is_not_automatic_leaves_no_squeeze_behind(mode: Mode) -> None:
    given_policy = auto(tuning_mode=mode)
    memory = replace(rested(), **{**SQUEEZED, "squeezed_replicas": 9, "lowered_at_s": NOW})
    tick = pilot.step(given_policy, calm(), memory, NOW)
    assert tick.memory.squeezed_seqs is None
    assert SetReplicas(replicas=2, reason=Reason.DEMAND_LOW) in tick.actions


def test_a_squeeze_ends_without_traffic() -> None:
    knobs = Tunables(max_num_batched_tokens=512, max_num_running_seqs=8)
    seen = calm(slices=(window(NOW - 5, NOW),), desired_tunables=knobs)
    tick = pilot.step(auto(), seen, replace(rested(), **SQUEEZED), NOW)
    assert SetTunables(replace(knobs, max_num_running_seqs=64)) in tick.actions
    assert tick.memory.squeezed_seqs is None


def test_overdue_pods_do_not_hold_a_scale_in_back() -> None:
    late = pod(9, ready=False, ready_since_s=None, created_s=NOW - 500)
    seen = calm(pods=(pod(1), pod(2), late))
    assert scaled(auto(), seen, rested()).action is Action.SCALE_IN
    limit = pilot.step(auto(), seen, rested(), NOW).scaling_limit
    assert limit is not None
    assert limit.reason is Reason.PENDING_STUCK


@pytest.mark.parametrize("serving", [0, 2])
def test_a_pod_no_node_takes_is_a_limit_at_once_in_the_words_of_the_scheduler(
    serving: int,
) -> None:
    said = "0/1 nodes are available: 1 Insufficient cpu."
    new = pod(9, ready=False, ready_since_s=None, created_s=NOW - 5, no_room=said)
    pods = (*(pod(n + 1) for n in range(serving)), new)
    found = pilot.step(auto(max_replicas=2), calm(pods=pods), rested(), NOW).scaling_limit
    assert found is not None
    assert found.reason is Reason.UNSCHEDULABLE
    assert found.message == f"No node has room for 1 pod: {said}"


@pytest.mark.parametrize(
    ("mode", "reason"),
    [(Mode.OFF, Reason.MODE_OFF), (Mode.RECOMMEND, Reason.RECOMMEND_ONLY), (Mode.AUTO, None)],
)
@pytest.mark.parametrize("most", [20, 2])
def test_a_mode_that_keeps_replicas_from_coming_is_a_limit(
    mode: Mode, reason: Reason | None, most: int
) -> None:
    """To raise the maximum, too, would move nothing there."""
    reason = Reason.AT_MAXIMUM if mode is Mode.AUTO and most == 2 else reason
    given_policy = auto(tuning_mode=Mode.OFF, scaling_mode=mode, max_replicas=most)
    found = pilot.step(given_policy, late_first_tokens(), rested(), NOW).scaling_limit
    assert (None if found is None else found.reason) is reason
    assert ("and maxReplicas is 2" in str(found)) is (mode is not Mode.AUTO and most == 2)


def test_recommend_shows_the_move_and_does_not_make_it() -> None:
    given_policy = auto(scaling_mode=Mode.RECOMMEND)
    tick = pilot.step(given_policy, calm(), rested(), NOW)
    decision = next(d for d in tick.decisions if d.knob is Knob.REPLICAS)
    assert (decision.after, decision.applied) == (2, False)
    assert decision.guard is Reason.RECOMMEND_ONLY
    assert not [a for a in tick.actions if isinstance(a, SetReplicas)]
    assert tick.memory.scaled_in_at_s == rested().scaled_in_at_s


def test_a_manual_floor_holds_and_expires() -> None:
    given_policy = auto(replicas=5, override_s=1800)
    first = pilot.step(given_policy, calm(), rested(), NOW)
    assert SetReplicas(replicas=5, reason=Reason.MANUAL_FLOOR) in first.actions
    assert first.scaling_limit is not None
    assert first.scaling_limit.reason is Reason.MANUAL_FLOOR
    assert first.scaling_limit.expires_s == NOW + 1800
    later = replace(first.memory, manual_since_s=NOW - 1800, replica_at_s=NOW - 15,
                    scaled_in_at_s=0.0)  # fmt: skip
    after = pilot.step(given_policy, calm(desired_replicas=3), later, NOW)
    assert after.scaling_limit is None
    assert not [a for a in after.actions if isinstance(a, SetReplicas) and a.replicas > 3]


def test_off_means_the_value() -> None:
    tick = pilot.step(auto(scaling_mode=Mode.OFF, replicas=7), calm(), rested(), NOW)
    assert SetReplicas(replicas=7, reason=Reason.MANUAL_VALUE) in tick.actions
