from __future__ import annotations

from typing import Any

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
    assert cells == "first-token (TTFT p95) 1.71 s 1.50 s 91.2 % 95 % 240 30s"


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
