from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console

from paceline_operator.cli import status_view
from tests.operator.cli.sample import NOW, STATUS, service


def shown(status: dict[str, Any] | None = None) -> str:
    console = Console(width=160, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    with console.file:
        console.print(status_view.render(service(status), NOW))
    return console.export_text()


def row(text: str, start: str) -> list[str]:
    line = next(line for line in text.splitlines() if line.startswith(start))
    return line.split()


def test_objectives_show_measured_target_and_attainment() -> None:
    cells = " ".join(row(shown(), "first-token"))
    assert cells == "first-token (TTFT p95) 1.71 s 1.50 s 91.2 % 95 % missed 240 -/- 30s"


def test_knobs_show_desired_and_in_force() -> None:
    text = shown()
    assert " ".join(row(text, "token budget")).startswith(
        "token budget 96 96 acknowledged by 2 of 2"
    )
    assert row(text, "replicas")[:3] == ["replicas", "3", "2"]


def test_the_last_decision_is_told() -> None:
    assert "Last decision, 30s ago: replicas Hold (AtMaximum)." in shown()


def test_an_unseen_spec_is_said() -> None:
    assert "has not seen the newest spec" in shown({**STATUS, "observedGeneration": 0})


def test_nothing_known_is_shown_as_dashes() -> None:
    text = shown({})
    assert row(text, "token budget")[2:4] == ["-", "-"]
    assert "No decision yet." in text


CALENDAR = {
    "minReplicas": 4,
    "schedule": "day",
    "minReplicasChangesAt": "2026-01-01T18:00:00Z",
    "nextMinReplicas": 1,
    "frozenBy": "launch",
    "frozenUntil": "2026-01-01T13:00:00Z",
}


def test_the_calendar_is_told() -> None:
    text = shown({**STATUS, "calendar": CALENDAR})
    assert 'At least 4 replicas, by the schedule "day".' in text
    assert "From 2026-01-01T18:00:00Z on at least 1." in text
    assert 'Moves are frozen by the window "launch" until 2026-01-01T13:00:00Z.' in text
    later = {"minReplicas": 1, "nextFreezeAt": "2026-01-02T09:00:00Z"}
    assert "The next freeze window opens at 2026-01-02T09:00:00Z." in shown(
        {**STATUS, "calendar": later}
    )


def test_who_lowers_the_modes_is_told() -> None:
    modes = {"tuning": "Recommend", "scaling": "Recommend", "lowered": ["tuning", "scaling"]}
    assert (
        "The installation allows no more (maxMode): tuning is Recommend and scaling is Recommend."
    ) in shown({**STATUS, "modes": modes})


def test_burn_rates_are_told() -> None:
    first, *others = STATUS["slos"]
    burning = {**first, "burnHour": 2.44, "burnSixHours": 0.81}
    assert "2.4/0.8" in row(shown({**STATUS, "slos": [burning, *others]}), "first-token")


@pytest.mark.parametrize("verdict", ["Held", "Missed", "Open"])
def test_the_verdict_is_told(verdict: str) -> None:
    slo = {**STATUS["slos"][0], "attainmentPercent": 94.6, "verdict": verdict}
    assert verdict.lower() in row(shown({**STATUS, "slos": [slo]}), "first-token")


def test_what_a_histogram_leaves_open_is_told_with_its_edges() -> None:
    first, *others = STATUS["slos"]
    coarse = {
        **first, "attainmentPercent": 96.0, "attainmentLowPercent": 91.0,
        "attainmentHighPercent": 99.0, "edgesMs": [1000.0, 2000.0],
    }  # fmt: skip
    text = shown({**STATUS, "slos": [coarse, *others]})
    assert "96.0 % (91.0 to 99.0)" in text
    assert "1.50 s lies beside the edges 1.00 s and 2.00 s" in text


def test_square_brackets_of_a_message_stay() -> None:
    said = "spec.scaling.schedules[office-hours]: no such zone [/x]"
    status = {
        "conditions": [
            {
                "type": "Stalled",
                "status": "True",
                "reason": "InvalidCalendar",
                "message": said,
                "lastTransitionTime": "2026-11-30T12:00:00Z",
            }
        ]
    }
    assert said in " ".join(shown(status).split())


@pytest.mark.parametrize(
    ("knob", "before", "after", "said"),
    [
        ("stepTime", 1, 238, "Step time: 1 ms -> 238 ms is recommended, not done."),
        ("stepTime", 90, 0, "Step time: 90 ms -> none is recommended, not done."),
        ("replicas", 2, 4, "Replicas: 2 -> 4 is recommended, not done."),
    ],
)
def test_what_is_only_recommended_is_shown(knob: str, before: int, after: int, said: str) -> None:
    decision = {**STATUS["decisions"][0], "knob": knob, "before": before, "after": after}
    wished = {**decision, "guard": "RecommendOnly"}
    assert said in shown({**STATUS, "knobs": [wished]})
    assert "recommended" not in shown({**STATUS, "knobs": [{**wished, "guard": "AtFloor"}]})
