"""Invariants of one call of the control law, over arbitrary fleets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline_operator.api.v1alpha1 import Mode, Pause, SloMetric, Tier
from paceline_operator.autopilot import pilot
from paceline_operator.autopilot.vocabulary.decision import (
    Action,
    Decision,
    Knob,
    Reason,
    SetReplicas,
    SetTunables,
    Tick,
)
from paceline_operator.autopilot.vocabulary.fleet import (
    DataClass,
    FleetObservation,
    PodObservation,
    PodTunables,
    Tunables,
)
from paceline_operator.autopilot.vocabulary.memory import Memory, Recommendation
from paceline_operator.autopilot.vocabulary.policy import Objective, Policy, budget_floor
from paceline_operator.autopilot.vocabulary.window import (
    Counter,
    SloCounts,
    StepClass,
    Window,
    slo_key,
)
from tests.operator.autopilot.build import ITL, TTFT, auto, fleet, moments, pod, policy, window

NOW = 1000.0
MANUAL = {Reason.MANUAL_VALUE, Reason.BELOW_MINIMUM, Reason.ABOVE_MAXIMUM, Reason.MANUAL_FLOOR}
small = st.integers(0, 200)


@st.composite
def windows(draw: st.DrawFn) -> tuple[Window, ...]:
    made = []
    for number in range(draw(st.integers(0, 8))):
        end_s = NOW - 5.0 * number
        slow = draw(st.floats(0.001, 3.0))
        mixed = [(draw(small), 1 + draw(small), 1000, 5000, slow)] * draw(st.integers(0, 30))
        decode = [(0, 1 + draw(small), 1000, 0, slow / 3)] * draw(st.integers(0, 60))
        counters = {
            Counter.REQUESTS_RECEIVED: float(draw(small)),
            Counter.PROMPT_TOKENS_RECEIVED: 100.0 * draw(small),
            Counter.STEPS_AT_BUDGET: float(draw(st.integers(0, 5))),
        }
        made.append(
            window(
                end_s - 5.0,
                end_s,
                steps={
                    StepClass.MIXED: moments(*mixed),
                    StepClass.DECODE_ONLY: moments(*decode),
                },
                counters=counters,
                slo={
                    slo_key(TTFT, "TTFT", 1000): SloCounts(draw(small), draw(small)),
                    slo_key(ITL, "ITL", 100): SloCounts(draw(small), draw(small)),
                },
            )
        )
    return tuple(reversed(made))


@st.composite
def pods(draw: st.DrawFn) -> tuple[PodObservation, ...]:
    made = []
    for number in range(draw(st.integers(0, 6))):
        ready = draw(st.booleans())
        reported = PodTunables(
            effective=512,
            floor=budget_floor(64, 16),
            ceiling=draw(st.sampled_from([512, 1024, 2048])),
            step=16,
            running_seqs=64,
            running_ceiling=draw(st.sampled_from([32, 64])),
        )
        made.append(
            pod(
                number,
                ready=ready,
                ready_since_s=draw(st.floats(0, NOW)) if ready else None,
                created_s=draw(st.floats(0, NOW)),
                draining=draw(st.integers(0, 4)) == 0,
                data=draw(st.sampled_from(list(DataClass))),
                tunables=reported if draw(st.booleans()) else None,
                waiting=draw(small),
                waiting_tokens=100 * draw(small),
            )
        )
    return tuple(made)


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    low = draw(st.integers(0, 3))
    return auto(
        min_replicas=low,
        max_replicas=draw(st.one_of(st.none(), st.integers(max(1, low), 8))),
        replicas=draw(st.one_of(st.none(), st.integers(0, 9))),
        tuning_mode=draw(st.sampled_from(list(Mode))),
        scaling_mode=draw(st.sampled_from(list(Mode))),
        pause=draw(st.sampled_from(list(Pause))),
        batch_min=draw(st.sampled_from([None, 64, 256])),
        batch_max=draw(st.sampled_from([256, 1024, 2048])),
        profile=draw(st.sampled_from([None, "llama-3-8b-a100"])),
    )


@st.composite
def memories(draw: st.DrawFn) -> Memory:
    return Memory(
        margin=draw(st.floats(0.05, 0.4)),
        proven_budget=draw(st.sampled_from([0, 256, 1024])),
        lowered_at_s=draw(st.floats(0, NOW)),
        raised_at_s=draw(st.floats(0, NOW)),
        squeezed_seqs=draw(st.sampled_from([None, 32])),
        squeezed_replicas=draw(st.integers(0, 3)),
        recommending_since_s=draw(st.one_of(st.none(), st.floats(0, NOW))),
        replica_at_s=draw(st.sampled_from([0.0, NOW - 15, NOW - 200])),
        capacity_factor=draw(st.floats(0.3, 1.0)),
    )


@st.composite
def fleets(draw: st.DrawFn) -> FleetObservation:
    return fleet(
        pods=0,
        now_s=NOW,
        slices=draw(windows()),
        desired_replicas=draw(st.integers(0, 9)),
        desired_tunables=draw(
            st.one_of(
                st.none(),
                st.builds(
                    Tunables,
                    max_num_batched_tokens=st.integers(1, 150).map(lambda n: 16 * n),
                    max_num_running_seqs=st.integers(1, 64),
                ),
            )
        ),
        rolling_out=draw(st.booleans()),
        yielded=draw(st.sampled_from([{}, {"replicas": "hpa"}, {"budget": "someone"}])),
    )


@st.composite
def cases(draw: st.DrawFn) -> tuple[Policy, FleetObservation, Memory]:
    seen = replace(draw(fleets()), pods=draw(pods()))
    return draw(policies()), seen, draw(memories())


Case = tuple[Policy, FleetObservation, Memory]


def ticked(case: Case) -> Tick:
    given_policy, seen, memory = case
    return pilot.step(given_policy, seen, memory, NOW)


@settings(max_examples=40, deadline=None)
@given(cases())
def test_the_same_inputs_give_the_same_outputs(case: Case) -> None:
    assert ticked(case) == ticked(case)


@settings(max_examples=60, deadline=None)
@given(cases())
def test_budgets_are_on_the_ladder_and_inside_all_limits(case: Case) -> None:
    given_policy, seen, _ = case
    for knobs in (a.tunables for a in ticked(case).actions if isinstance(a, SetTunables)):
        reports = [p.tunables for p in seen.serving if p.tunables]
        ceiling = min([given_policy.batch_max, *(r.ceiling for r in reports)])
        floor = min(budget_floor(knobs.max_num_running_seqs, 16), ceiling)
        budget = knobs.max_num_batched_tokens
        assert floor <= budget <= ceiling
        assert budget % 16 == 0 or budget == ceiling
        assert 1 <= knobs.max_num_running_seqs <= given_policy.max_num_seqs


@settings(max_examples=60, deadline=None)
@given(cases())
def test_replicas_are_inside_the_limits(case: Case) -> None:
    given_policy, _, _ = case
    for action in ticked(case).actions:
        if isinstance(action, SetReplicas) and given_policy.scaling_mode is Mode.AUTO:
            assert action.replicas >= max(1, given_policy.min_replicas)
            if given_policy.max_replicas is not None:
                assert action.replicas <= given_policy.max_replicas


@settings(max_examples=60, deadline=None)
@given(cases())
def test_only_auto_acts(case: Case) -> None:
    given_policy, seen, _ = case
    for action in ticked(case).actions:
        if isinstance(action, SetTunables):
            assert given_policy.tuning_mode is Mode.AUTO
            assert "budget" not in seen.yielded
        else:
            assert given_policy.scaling_mode is Mode.AUTO or action.reason in MANUAL
            assert "replicas" not in seen.yielded


@settings(max_examples=60, deadline=None)
@given(cases())
def test_every_decision_is_explained(case: Case) -> None:
    tick = ticked(case)
    assert {d.knob for d in tick.decisions} & {Knob.BUDGET, Knob.RUNNING_SEQS}
    for decision in tick.decisions:
        assert decision.message
        assert decision.inputs
        assert (decision.action is Action.HOLD) is (decision.before == decision.after)
        assert not (decision.applied and decision.action is Action.HOLD)
    assert len([d for d in tick.decisions if d.applied]) == len(tick.actions)


@settings(max_examples=60, deadline=None)
@given(cases())
def test_nothing_is_lowered_blindly(case: Case) -> None:
    given_policy, seen, memory = case
    blind = replace(seen, pods=tuple(replace(p, data=DataClass.ABSENT) for p in seen.pods))
    tick = pilot.step(given_policy, blind, memory, NOW)
    for decision in tick.decisions:
        if decision.applied and decision.reason not in MANUAL | {Reason.OUTSIDE_LIMITS}:
            assert decision.action not in (Action.LOWER, Action.SCALE_IN)


@settings(max_examples=60, deadline=None)
@given(cases())
def test_no_scale_in_while_a_knob_is_squeezed(case: Case) -> None:
    given_policy, seen, memory = case
    given_policy = replace(given_policy, tuning_mode=Mode.AUTO)
    seen = replace(seen, yielded={})
    squeezed = replace(memory, squeezed_seqs=64, lowered_at_s=NOW)
    for decision in pilot.step(given_policy, seen, squeezed, NOW).decisions:
        if decision.applied and decision.reason not in MANUAL:
            assert decision.action is not Action.SCALE_IN


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
