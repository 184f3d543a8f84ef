"""Invariants of one call of the control law, over arbitrary fleets."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from paceline_operator.api.v1alpha1 import Mode, Pause
from paceline_operator.autopilot import pilot
from paceline_operator.autopilot.vocabulary.decision import (
    Action,
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
from paceline_operator.autopilot.vocabulary.memory import Memory
from paceline_operator.autopilot.vocabulary.policy import Policy, budget_floor
from paceline_operator.autopilot.vocabulary.window import (
    Counter,
    SloCounts,
    StepClass,
    Window,
    slo_key,
)
from tests.operator.autopilot.build import ITL, TTFT, auto, fleet, moments, pod, window

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
