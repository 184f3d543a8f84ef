from __future__ import annotations

from paceline_operator.cli.explanation import explain
from tests.operator.cli.sample import NOW, STATUS, service


def test_it_says_what_was_measured() -> None:
    missed, met = explain(service(), NOW).measured
    assert missed == (
        "first-token (TTFT p95) is missed: 91.2 % within 1.50 s, 95 % wanted; "
        "measured 1.71 s over 240 samples, 30s ago."
    )
    assert met.startswith("cadence (ITL p95) is met: 99.1 % within 250 ms")


def test_without_samples_it_says_since_when() -> None:
    (slo, _) = STATUS["slos"]
    bare = {k: v for k, v in slo.items() if k not in ("attainmentPercent", "measuredMs")}
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


def test_one_sample_is_one() -> None:
    slo = {**STATUS["slos"][0], "samples": 1}
    (said,) = explain(service({**STATUS, "slos": [slo]}), NOW).measured
    assert "over 1 sample, 30s ago" in said


def test_it_says_what_was_considered() -> None:
    said = " ".join(explain(service(), NOW).considered)
    assert "trusted, from 812 engine steps" in said
    assert "A step that uses the whole budget takes 212 ms, one that only decodes 61 ms" in said
    assert "budget of up to 112 tokens" in said
    assert "1.25 requests/s" in said


def test_it_shows_the_figures_behind_the_last_decision() -> None:
    inputs = {"forecastRps": 5.25, "capacityBound": "ttft", "neededReplicas": 4}
    last = {**STATUS["lastDecision"], "inputs": inputs}
    said = explain(service({**STATUS, "lastDecision": last}), NOW).considered[-1]
    assert said == (
        "Figures behind the last decision, about replicas: "
        "forecastRps 5.25, capacityBound ttft, neededReplicas 4."
    )
    assert "Figures" not in explain(service(), NOW).text()


def test_it_names_what_binds_and_only_that() -> None:
    binding = explain(service(), NOW).binding
    assert binding == (
        "Last decision, 30s ago: replicas Hold (AtMaximum). 4 needed, maxReplicas is 3.",
        "ScalingLimited is True (AtMaximum): 4 needed, maxReplicas is 3.",
    )


def test_it_lists_the_last_changes() -> None:
    (change,) = explain(service(), NOW).changes
    assert change.startswith("30s ago: budget Lower (ItlPrefillBound, limited by AtFloor).")


def test_a_new_object_is_explained_too() -> None:
    text = explain(service({}), NOW).text()
    assert "the live knobs are not agreed yet" in text
    assert "No objective is set." in text
    assert "no step-time model" in text
    assert "has not moved anything yet" in text


def test_the_text_has_all_topics() -> None:
    text = explain(service(), NOW).text()
    for title in ("Measured", "Considered", "What binds", "Last changes"):
        assert f"\n{title}\n" in text
