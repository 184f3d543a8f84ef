from __future__ import annotations

from dataclasses import replace

from paceline_operator.api.conditions import ConditionType
from paceline_operator.cli.explanation import explain
from tests.operator.cli.sample import LOWERED, NOW, SPEC, STATUS, service


def test_it_says_what_was_measured() -> None:
    missed, held = explain(service(), NOW).measured
    assert missed == (
        "first-token (TTFT p95) is missed: 91.2 % within 1.50 s, 95 % wanted; "
        "measured 1.71 s over 240 samples, 30s ago."
    )
    assert held.startswith("cadence (ITL p95) is held: 99.1 % within 250 ms")


def test_what_is_not_proven_is_open() -> None:
    slo = {**STATUS["slos"][0], "attainmentPercent": 94.6, "samples": 130, "verdict": "Open"}
    (said,) = explain(service({**STATUS, "slos": [slo]}), NOW).measured
    assert said.startswith("first-token (TTFT p95) is open: 94.6 % within 1.50 s, 95 % wanted;")


def test_without_samples_it_says_since_when() -> None:
    (slo, _) = STATUS["slos"]
    bare = {k: v for k, v in slo.items() if k not in ("attainmentPercent", "measuredMs", "verdict")}
    (said,) = explain(service({**STATUS, "slos": [bare]}), NOW).measured
    assert said == (
        "first-token (TTFT p95): no samples in its window, the last 30s ago; the target is 1.50 s."
    )
    del bare["measuredAt"]
    (said,) = explain(service({**STATUS, "slos": [bare]}), NOW).measured
    assert said == "first-token (TTFT p95): no samples yet; the target is 1.50 s."


def test_it_says_which_budget_a_step_was_computed_for() -> None:
    model = {**STATUS["model"], "budget": 32}
    said = " ".join(explain(service({**STATUS, "model": model}), NOW).considered)
    assert "A step that uses the whole budget of 32 tokens takes 212 ms" in said


def test_it_says_for_which_step_time_engines_size_their_steps() -> None:
    paced = {**STATUS, "budget": {**STATUS["budget"], "stepTimeTargetMs": 225.0}}
    found = explain(service(paced), NOW)
    assert "engines size each step for 225 ms" in found.text()
    assert "whole budget" not in found.text()


def test_figures_in_a_form_of_another_version_are_passed_over() -> None:
    model = {
        **STATUS["model"],
        "steps": "many",
        "baseMs": None,
        "perKvTokenMs": [1],
        "budgetStepMs": {"mean": 9},
        "budgetCap": "112",
        "slowPods": ["a"],
    }
    strange = {"fullStepMs": "9 ms", "ttftMs": [1, 2], "servingPods": 2}
    move = {**STATUS["decisions"][0], "expected": strange, "observed": {**strange, "overS": "6"}}
    found = explain(service({**STATUS, "model": model, "decisions": [move]}), NOW)
    assert not [said for said in found.considered if "whole budget" in said or "Pod " in said]
    assert "1.25 requests/s" in found.text()
    assert "Expected: serving replicas 2. Measured after: serving replicas 2." in found.changes[0]


def test_one_sample_is_one() -> None:
    slo = {**STATUS["slos"][0], "samples": 1}
    (said,) = explain(service({**STATUS, "slos": [slo]}), NOW).measured
    assert "over 1 sample, 30s ago" in said


def test_it_says_what_was_considered() -> None:
    said = " ".join(explain(service(), NOW).considered)
    assert "trusted, from 812 engine steps" in said
    assert "A step that uses the whole budget takes 212 ms, one that only decodes 61 ms" in said
    assert "allows steps of up to 112 tokens" in said
    assert "1.25 requests/s" in said


REPLICAS = {
    **STATUS["lastDecision"],
    "reason": "DownWindow",
    "message": "3 of 4 replicas would do, but 4 were needed in the down window.",
    "considered": [
        {"value": 3, "reason": "DownWindow", "message": "9 requests/s fit, 8 are expected"},
        {"value": 4, "chosen": True, "reason": "DownWindow", "message": "12 fit, 8 are expected"},
    ],
    "nextSteps": [
        {
            "action": "ScaleIn",
            "value": 3,
            "earliest": "2026-01-01T14:05:20Z",
            "waitsFor": "DownWindow",
            "message": "the highest recommendation of the down window is 4",
        },
        {"action": "ScaleOut", "waitsFor": "DemandForecast", "message": "once more are expected"},
    ],
}


def test_each_knob_tells_what_was_considered_and_what_comes_next() -> None:
    (told,) = explain(service({**STATUS, "knobs": [REPLICAS]}), NOW).knobs
    assert told.text().splitlines() == [
        "Replicas",
        "  30s ago: replicas Hold (DownWindow). 3 of 4 replicas would do, but 4 were needed in the "
        "down window.",
        "  At 4: 12 fit, 8 are expected.",
        "  Not 3 (DownWindow): 9 requests/s fit, 8 are expected.",
        "  Next: scale-in to 3 is possible at 14:05:20 UTC at the earliest (DownWindow): the "
        "highest recommendation of the down window is 4.",
        "  Next: scale-out (DemandForecast): once more are expected.",
    ]


def test_a_moment_that_has_passed_is_told_as_such() -> None:
    late = NOW.replace(hour=15)
    (told,) = explain(service({**STATUS, "knobs": [REPLICAS]}), late).knobs
    assert told.next[0].startswith("scale-in to 3 is possible since 14:05:20 UTC (DownWindow)")


def test_a_moment_of_another_day_has_its_date() -> None:
    (told,) = explain(service({**STATUS, "knobs": [REPLICAS]}), NOW.replace(day=2)).knobs
    assert told.next[0].startswith("scale-in to 3 is possible since 2026-01-01 14:05:20 UTC (")


def test_a_change_tells_what_was_expected_and_what_was_measured() -> None:
    expected = {"fullStepMs": 212.0, "capacityRps": 1.25}
    observed = {
        "overS": 30.0, "fullStepMs": 221.4, "attainment.cadence": 0.971,
        "promptStepMeanMs": 180.0, "promptStepMeanPredictedMs": 175.0,
    }  # fmt: skip
    moved = {**LOWERED, "expected": expected}
    (said,) = explain(service({**STATUS, "decisions": [moved]}), NOW).changes
    assert said.endswith(
        " Expected: a full step 212 ms, capacity 1.25 requests/s. Not measured yet."
    )
    (said,) = explain(
        service({**STATUS, "decisions": [{**moved, "observed": observed}]}), NOW
    ).changes
    assert said.endswith(
        "Measured after over 30 s: a full step 221 ms, cadence 97.1 % within target. Steps "
        "with prompt tokens took 180 ms in the mean; the model of then gives 175 ms for what they "
        "carried."
    )


def test_it_names_what_binds_and_only_that() -> None:
    binding = explain(service(), NOW).binding
    assert binding == (
        "Last decision, 30s ago: replicas Hold (AtMaximum). 4 needed, maxReplicas is 3.",
        "SLOMet is False (Missed): first-token is missed",
        "ScalingLimited is True (AtMaximum): 4 needed, maxReplicas is 3.",
    )


def test_it_names_why_a_fleet_does_not_serve() -> None:
    told = {
        "Ready": ("False", "ImagePullBackOff", "2 of 2 pods: no such image"),
        "Reconciling": ("True", "RollingOut", "pods are being replaced"),
        "SLOMet": ("Unknown", "NoSamples", "no samples lately"),
    }
    conditions = [
        {"type": kind, "status": status, "reason": reason, "message": said, "lastTransitionTime":
         "2026-01-01T12:00:00Z"}
        for kind, (status, reason, said) in told.items()
    ]  # fmt: skip
    assert explain(service({**STATUS, "conditions": conditions}), NOW).binding[1:] == (
        "Ready is False (ImagePullBackOff): 2 of 2 pods: no such image",
        "Reconciling is True (RollingOut): pods are being replaced",
    )


def test_every_condition_is_told_where_it_is_not_as_it_should_be() -> None:
    bad = dict.fromkeys(ConditionType, "False")
    bad |= dict.fromkeys(("Reconciling", "Stalled", "ScalingLimited", "Conflict"), "True")
    conditions = [
        {"type": kind, "status": status, "reason": "Cause", "message": "why",
         "lastTransitionTime": "2026-01-01T12:00:00Z"}
        for kind, status in bad.items()
    ]  # fmt: skip
    binding = explain(service({**STATUS, "conditions": conditions}), NOW).binding[1:]
    assert {said.split(" is ")[0] for said in binding} == set(ConditionType)


def test_a_spec_that_the_operator_has_not_seen_is_said() -> None:
    said = "The operator has not seen the newest spec yet."
    assert explain(service({**STATUS, "observedGeneration": 0}), NOW).binding[0] == said
    assert said not in explain(service(), NOW).text()


def test_it_lists_the_last_changes() -> None:
    (change,) = explain(service(), NOW).changes
    assert change.startswith("30s ago: budget Lower (ItlPrefillBound, limited by AtFloor).")


def test_a_new_object_is_explained_too() -> None:
    text = explain(service({}), NOW).text()
    assert "the live knobs are not agreed yet" in text
    assert "Nothing is measured yet." in text
    assert "no step-time model" in text
    assert "has not moved anything yet" in text


def test_an_object_without_objectives_is_told_from_one_that_is_new() -> None:
    bare = replace(service({}), spec={"model": {}})
    assert explain(bare, NOW).measured == ("No objective is set.",)


def test_the_text_has_all_topics() -> None:
    text = explain(service(), NOW).text()
    for title in ("Measured", "Considered", "What binds", "Last changes"):
        assert f"\n{title}\n" in text


def test_it_says_that_one_pod_of_the_fleet_tries_another_budget() -> None:
    tried = {**STATUS, "memory": {"trial": {"uid": "u", "budget": 128, "probes": False}}}
    assert explain(service(tried), NOW).summary.endswith("One pod of 2 is trying a budget of 128.")
    assert "trying" not in explain(service({**STATUS, "memory": {"trial": None}}), NOW).summary


def test_a_least_budget_that_engines_do_not_take_is_said() -> None:
    spec = {**SPEC, "engine": {**SPEC["engine"], "batchTokens": {"min": 64, "max": 1024}}}
    knob = {**LOWERED, "inputs": {"budgetFloor": 80, "runningSeqs": 64}}
    said = "batchTokens.min is 64: with up to 64 sequences at once engines take no budget below 80."
    asked = replace(service({**STATUS, "knobs": [knob]}), spec=spec)
    assert said in explain(asked, NOW).binding
    assert said not in explain(service({**STATUS, "knobs": [knob]}), NOW).binding


def test_where_nothing_binds_it_says_so() -> None:
    assert explain(service({"observedGeneration": 1}), NOW).binding == (
        "Nothing: no limit, and no condition that is out of order.",
    )
