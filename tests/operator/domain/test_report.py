from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline_operator.api.choice import SloMetric, SloVerdict
from paceline_operator.api.conditions import ConditionType
from paceline_operator.api.status import BudgetStatus, InferenceServiceStatus
from paceline_operator.autopilot.vocabulary.decision import (
    Action,
    Candidate,
    Decision,
    Effect,
    Feasibility,
    Knob,
    NextStep,
    Observation,
    Reason,
    ScalingLimit,
    SloMeasurement,
    Tick,
)
from paceline_operator.autopilot.vocabulary.fleet import DataClass
from paceline_operator.autopilot.vocabulary.memory import Memory
from paceline_operator.domain.report import Pass, dump, status, worth_writing
from paceline_operator.domain.report import counted_at_s as counted_at_s_of
from paceline_operator.domain.verdicts import Sight
from tests.support.fleet import NOW_S, pod, spec

SPEC = spec(slos=[{"name": "ttft", "metric": "TTFT", "targetMs": 500}])
DECISION = Decision(
    time_s=NOW_S, knob=Knob.BUDGET, action=Action.RAISE, reason=Reason.TTFT_PRESSURE,
    message="Budget 256 -> 512.", before=256, after=512, applied=True,
)  # fmt: skip
HOLD = replace(DECISION, action=Action.HOLD, reason=Reason.OBJECTIVES_MET, applied=False)


def tick(*decisions: Decision, attainment: float = 0.99, measured_ms: float = 100.0) -> Tick:
    slo = SloMeasurement(
        name="ttft", metric=SloMetric.TTFT, percentile=95, target_ms=500, attainment=attainment,
        measured_ms=measured_ms, samples=100, met=True, measured_at_s=NOW_S - 5,
    )  # fmt: skip
    return Tick(decisions=decisions, actions=(), memory=Memory(), slo=(slo,))


def made(before: InferenceServiceStatus | None = None, **fields: Any) -> InferenceServiceStatus:
    pods = (pod("a", template_hash="t"), pod("b", template_hash="t"))
    sight = Sight(
        pods=pods, wanted=2, template_hash="t", tick=fields.pop("tick", tick()),
        settling=fields.pop("settling", False), unmeasured=fields.pop("unmeasured", ""),
    )  # fmt: skip
    given = {
        "name": "chat", "generation": 3, "spec": SPEC, "memory": {}, "now_s": NOW_S,
        "budget": BudgetStatus(revision=4, desired=512, effective=512, acknowledged=2, total=2),
        "before": before or InferenceServiceStatus(), "sight": sight,
    }  # fmt: skip
    return status(Pass(**{**given, **fields}))


def test_every_condition_is_set_on_the_first_pass() -> None:
    assert [each.type for each in made().conditions] == list(ConditionType)


def test_facts_are_those_of_live_pods() -> None:
    found = made()
    assert (found.observed_generation, found.replicas, found.ready_replicas) == (3, 2, 2)
    assert (found.summary.replicas, found.summary.budget, found.summary.ttft) == (
        "2/2", "512", "100/500ms",
    )  # fmt: skip


def test_measurements_come_with_samples_and_time() -> None:
    (slo,) = made().slos
    assert (slo.attainment_percent, slo.measured_ms, slo.samples) == (99.0, 100.0, 100)
    assert slo.measured_at == "2027-01-15T07:59:55Z"


@pytest.mark.parametrize(
    ("met", "verdict"),
    [(True, SloVerdict.HELD), (False, SloVerdict.MISSED), (None, SloVerdict.OPEN)],
)
def test_the_verdict_is_the_autopilots(met: bool | None, verdict: SloVerdict) -> None:
    found = tick(attainment=0.946)
    (slo,) = made(tick=replace(found, slo=(replace(found.slo[0], met=met),))).slos
    assert slo.verdict is verdict


def test_without_samples_there_is_no_verdict() -> None:
    found = tick()
    none = replace(found.slo[0], attainment=None, met=None, samples=0)
    (slo,) = made(tick=replace(found, slo=(none,))).slos
    assert slo.verdict is None


def test_another_verdict_is_beyond_the_dead_band() -> None:
    found = made()
    (slo,) = found.slos
    other = found.model_copy(
        update={"slos": (slo.model_copy(update={"verdict": SloVerdict.OPEN}),)}
    )
    assert not worth_writing(found, found, since_write_s=60)
    assert worth_writing(found, other, since_write_s=60)


def test_only_changes_are_kept_and_only_twenty() -> None:
    found = InferenceServiceStatus()
    for index in range(25):
        found = made(found, tick=tick(HOLD, replace(DECISION, message=f"move {index}")))
    assert [each.message for each in found.decisions] == [f"move {i}" for i in range(5, 25)]


def test_a_move_is_shown_before_a_hold_of_the_same_tick() -> None:
    last = made(tick=tick(DECISION, HOLD)).last_decision
    assert last is not None
    assert last.action == "Raise"


def test_the_newest_decision_shows_its_figures_and_the_record_does_not() -> None:
    figured = replace(DECISION, inputs={"offeredRps": 1.23456, "windowS": 10, "cause": None})
    found = dump(made(tick=tick(figured)))
    assert found["lastDecision"]["inputs"] == {"offeredRps": 1.23456, "windowS": 10}
    assert [each.get("inputs") for each in found["decisions"]] == [None]


REPLICAS = replace(
    HOLD, knob=Knob.REPLICAS, before=2, after=2,
    considered=(Candidate(value=2, chosen=True, reason=Reason.OBJECTIVES_MET, message="fits"),),
    next_steps=(
        NextStep(action=Action.SCALE_IN, waits_for=Reason.DOWN_WINDOW, message="soon",
                 earliest_s=NOW_S + 60),
    ),
)  # fmt: skip


def test_each_knob_keeps_its_newest_decision() -> None:
    first = made(tick=tick(HOLD, REPLICAS))
    assert [each.knob for each in first.knobs] == ["budget", "replicas"]
    replicas = first.knobs[-1]
    assert [each.value for each in replicas.considered] == [2]
    assert [each.earliest for each in replicas.next_steps] == ["2027-01-15T08:01:00Z"]
    squeezed = replace(DECISION, knob=Knob.RUNNING_SEQS)
    second = made(first, tick=tick(squeezed))
    assert [each.knob for each in second.knobs] == ["runningSeqs", "replicas"]
    assert second.knobs[-1] == replicas


def test_a_change_keeps_what_was_expected_and_gains_what_was_measured() -> None:
    expected = Effect(due_s=NOW_S + 30, figures={"fullStepMs": 90.12345, "capacityRps": None})
    moved = made(tick=tick(replace(DECISION, expected=expected)))
    (change,) = moved.decisions
    assert (change.before, change.after) == (256, 512)
    assert (change.expected, change.observed) == ({"fullStepMs": 90.12}, None)
    seen = Observation(knob=Knob.BUDGET, moved_at_s=NOW_S, figures={"fullStepMs": 95.0})
    later = made(moved, tick=replace(tick(), observed=(seen,)))
    assert [each.observed for each in later.decisions] == [{"fullStepMs": 95.0}]
    other = replace(seen, knob=Knob.REPLICAS)
    assert made(moved, tick=replace(tick(), observed=(other,))).decisions == moved.decisions


def test_what_was_measured_after_a_move_waits_for_the_minute() -> None:
    moved = made(tick=tick(DECISION))
    seen = Observation(knob=Knob.BUDGET, moved_at_s=NOW_S, figures={"fullStepMs": 95.0})
    later = made(moved, tick=replace(tick(), observed=(seen,)))
    assert not worth_writing(moved, later, 30.0)
    assert worth_writing(moved, later, 60.0)


def test_another_cause_of_missing_metrics_waits_for_the_minute() -> None:
    lost = replace(tick(), data=DataClass.STALE)
    before = made(tick=lost, unmeasured="no answer in 5 s")
    after = made(before, tick=lost, unmeasured="answered 401")
    assert not worth_writing(before, after, 30.0)
    assert worth_writing(before, after, 60.0)


def test_a_pass_without_the_autopilot_keeps_what_it_said() -> None:
    first = made(tick=tick(DECISION))
    second = made(first, tick=None)
    assert second.last_decision == first.last_decision
    assert second.slos == first.slos


def test_a_new_target_forgets_the_old_measurement() -> None:
    other = spec(slos=[{"name": "ttft", "metric": "TTFT", "targetMs": 100}])
    (slo,) = made(made(), spec=other, tick=None).slos
    assert (slo.target_ms, slo.measured_ms) == (100, None)


BLIND = replace(
    tick(), data=DataClass.ABSENT, feasibility=None,
    slo=(replace(tick().slo[0], attainment=None, measured_ms=None, samples=0, met=None,
                 measured_at_s=None),),
)  # fmt: skip


def test_a_process_that_took_over_leaves_what_it_cannot_know_yet() -> None:
    before = made(tick=replace(tick(), data=DataClass.FRESH))
    after = made(before, tick=BLIND, settling=True, now_s=NOW_S + 5)
    assert (after.conditions, after.slos) == (before.conditions, before.slos)
    assert not worth_writing(before, after, 0.0)


def test_a_measurement_that_is_gone_is_worth_one_write_and_leaves_its_time() -> None:
    """Without samples there is no figure to show, an hour later as a minute later."""
    before = made(tick=replace(tick(), data=DataClass.FRESH))
    gone = replace(BLIND, data=DataClass.FRESH)
    lately = replace(gone, slo=(replace(gone.slo[0], measured_at_s=NOW_S + 20),))
    after = made(before, tick=lately, now_s=NOW_S + 80)
    assert worth_writing(before, after, 80.0)
    (slo,) = after.slos
    assert (slo.attainment_percent, slo.measured_ms, slo.samples) == (None, None, 0)
    assert slo.measured_at == "2027-01-15T08:00:20Z"
    assert after.summary.ttft == "-/500ms"
    met = next(each for each in after.conditions if each.type == ConditionType.SLO_MET)
    assert (met.status, met.reason) == ("Unknown", "NoSamples")
    later = made(after, tick=replace(gone, slo=BLIND.slo), now_s=NOW_S + 3600)
    assert later.slos == after.slos
    assert not worth_writing(after, later, 3600.0)


@pytest.mark.parametrize("fields", [{"settling": False}, {"settling": True, "generation": 4}])
def test_later_or_for_another_spec_not_knowing_is_said(fields: dict[str, Any]) -> None:
    before = made(tick=replace(tick(), data=DataClass.FRESH))
    told = {each.type: each.status for each in made(before, tick=BLIND, **fields).conditions}
    assert (told["MetricsFresh"], told["SLOMet"]) == ("False", "Unknown")


def test_a_process_that_took_over_says_at_once_what_it_measured() -> None:
    missed = replace(tick(), slo=(replace(tick().slo[0], met=False),), data=DataClass.FRESH)
    after = made(made(), tick=missed, settling=True)
    assert {each.type: each.status for each in after.conditions}["SLOMet"] == "False"


def test_dump_has_no_nulls() -> None:
    def check(value: Any) -> None:
        assert value is not None
        for inner in value.values() if isinstance(value, dict) else ():
            check(inner)
        for inner in value if isinstance(value, list) else ():
            check(inner)

    check(dump(made(tick=None)))


@pytest.mark.parametrize(
    ("known", "found", "at_once"),
    [(True, None, False), (True, False, True), (None, True, False), (False, None, False),
     (False, True, False), (None, False, False)],
)  # fmt: skip
def test_of_what_is_measured_only_a_proven_miss_does_not_wait_for_the_minute(
    known: bool | None, found: bool | None, at_once: bool
) -> None:
    def judged(met: bool | None) -> Tick:
        return replace(tick(), slo=(replace(tick().slo[0], met=met),), data=DataClass.FRESH)

    before = made(tick=judged(known))
    after = made(before, tick=judged(found))
    assert worth_writing(before, after, 5.0) is at_once
    assert worth_writing(before, after, 60.0)


AT_MAXIMUM = ScalingLimit(reason=Reason.AT_MAXIMUM, message="4 are wanted, 3 allowed")


@pytest.mark.parametrize(("known", "found"), [(None, AT_MAXIMUM), (AT_MAXIMUM, None)])
def test_a_limit_that_demand_touches_now_and_then_waits_for_the_minute(
    known: ScalingLimit | None, found: ScalingLimit | None
) -> None:
    before = made(tick=replace(tick(), scaling_limit=known))
    after = made(before, tick=replace(tick(), scaling_limit=found))
    assert not worth_writing(before, after, 59.0)
    assert worth_writing(before, after, 60.0)


def test_a_real_change_brings_what_is_measured_along() -> None:
    before = made(tick=replace(tick(), data=DataClass.STALE))
    after = made(before, tick=replace(tick(), data=DataClass.FRESH), generation=4)
    assert worth_writing(before, after, 0.0)
    assert {each.type: each.status for each in after.conditions}["MetricsFresh"] == "True"


MEASURED = st.builds(
    lambda met, data, feasible, limit, attainment: replace(
        tick(),
        slo=(replace(tick().slo[0], met=met, attainment=attainment),),
        data=data,
        feasibility=None if feasible is None else Feasibility(feasible=feasible, message="sums"),
        scaling_limit=limit,
    ),
    met=st.sampled_from([True, False, None]),
    data=st.sampled_from(DataClass),
    feasible=st.sampled_from([True, False, None]),
    limit=st.sampled_from([None, AT_MAXIMUM]),
    attainment=st.sampled_from([0.9, 0.95, 0.99]),
)


@given(st.lists(MEASURED, min_size=2, max_size=60), st.sampled_from([1.0, 5.0, 15.0]))
@settings(max_examples=60, deadline=None)
def test_whatever_is_measured_costs_a_write_a_minute(found: list[Tick], every_s: float) -> None:
    """And one more at most, ahead of its minute: any stretch of writes is held to that."""
    stored, counted_at_s, writes = made(tick=found[0]), NOW_S, [NOW_S]
    for number, each in enumerate(found[1:] * 4, start=1):
        now_s = NOW_S + number * every_s
        after = made(stored, tick=each, now_s=now_s)
        if worth_writing(stored, after, now_s - counted_at_s):
            counted_at_s = counted_at_s_of(stored, after, now_s, counted_at_s)
            stored = after
            writes.append(now_s)
    for first, first_s in enumerate(writes):
        for last, last_s in enumerate(writes[first:], start=first):
            assert last - first + 1 <= 2 + (last_s - first_s) / 60.0


def test_a_miss_ahead_of_its_minute_takes_the_next_one() -> None:
    held, missed = tick(), replace(tick(), slo=(replace(tick().slo[0], met=False),))
    good = made(tick=held)
    bad = made(good, tick=missed, now_s=NOW_S + 5)
    assert worth_writing(good, bad, 5.0)
    assert counted_at_s_of(good, bad, NOW_S + 5, NOW_S) == NOW_S + 60
    again = made(bad, tick=held, now_s=NOW_S + 65)
    assert not worth_writing(bad, again, 5.0)
    assert worth_writing(bad, again, 60.0)
    assert counted_at_s_of(bad, again, NOW_S + 120, NOW_S + 60) == NOW_S + 120
    # Before the minute that was taken has begun, nothing is taken once more.
    assert not worth_writing(good, bad, -1.0)


def test_another_live_knob_to_tell_of_does_not_wait_for_the_minute() -> None:
    """After a change to one budget for all steps, `explain` told of a step time of 0 ms."""
    paced = made(tick=tick(replace(HOLD, knob=Knob.STEP_TIME)))
    told = made(paced, tick=tick(HOLD))
    assert [each.knob for each in told.knobs] == ["budget"]
    assert worth_writing(paced, told, 10.0)
    assert not worth_writing(told, made(told, tick=tick(HOLD)), 10.0)


CHANGES: list[tuple[str, dict[str, Any], float, bool]] = [
    ("nothing", {}, 1e9, False),
    ("attainment inside the dead-band", {"tick": tick(attainment=0.982)}, 60.0, False),
    ("attainment beyond it", {"tick": tick(attainment=0.97)}, 60.0, True),
    ("attainment beyond it, too soon", {"tick": tick(attainment=0.5)}, 59.0, False),
    ("latency inside the dead-band", {"tick": tick(measured_ms=104.0)}, 60.0, False),
    ("latency beyond it", {"tick": tick(measured_ms=106.0)}, 60.0, True),
    ("a move", {"tick": tick(DECISION)}, 0.0, True),
    ("a hold", {"tick": tick(HOLD)}, 0.0, False),
    ("a hold, a minute later", {"tick": tick(HOLD)}, 60.0, True),
    ("an acknowledgement", {"budget": BudgetStatus(revision=4, desired=512, total=2)}, 0.0, True),
    ("a generation", {"generation": 4}, 0.0, True),
    ("time", {"now_s": NOW_S + 5}, 1e9, False),
    ("a foreign writer", {"memory": {"writers": [{"manager": "x", "time": 1.0}]}}, 0.0, True),
    ("the autopilot's clocks", {"memory": {"pilot": {"knob_at_s": 5.0}}}, 1e9, False),
    ("what it learned", {"memory": {"pilot": {"proven_budget": 512}}}, 60.0, True),
]


@pytest.mark.parametrize(
    ("fields", "since_s", "worth"), [c[1:] for c in CHANGES], ids=[c[0] for c in CHANGES]
)
def test_worth_writing(fields: dict[str, Any], since_s: float, worth: bool) -> None:
    before = made()
    assert worth_writing(before, made(before, **fields), since_s) is worth
