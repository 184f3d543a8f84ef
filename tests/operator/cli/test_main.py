"""The plug-in as users run it, against a real API server."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from rich.console import Console

from paceline_operator.cli import commands
from paceline_operator.cli.service import Service
from tests.operator.cli.sample import service
from tests.support.fleet_api import FleetApi

PROGRAM = Path(sys.executable).parent / "kubectl-paceline"


def run(kubeconfig: Path | None, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig or "/nowhere/config")}
    return subprocess.run(
        [str(PROGRAM), *arguments], env=environment, capture_output=True, text=True, check=False
    )


def test_status_is_a_table(fleets: FleetApi) -> None:
    done = run(fleets.server.kubeconfig, "status", "chat")
    assert done.returncode == 0, done.stderr
    assert "first-token (TTFT p95)" in done.stdout
    assert "91.2 %" in done.stdout
    assert "acknowledged by 2 of 2" in done.stdout


def test_status_as_json_keeps_the_memory_private(fleets: FleetApi) -> None:
    done = run(fleets.server.kubeconfig, "status", "chat", "-n", "default", "--json")
    document = json.loads(done.stdout)
    assert document["name"] == "chat"
    assert document["budget"]["effective"] == 96
    assert document["slos"][0]["attainmentPercent"] == 91.2
    assert "memory" not in document


def test_explain_speaks_in_sentences(fleets: FleetApi) -> None:
    done = run(fleets.server.kubeconfig, "explain", "chat")
    assert done.returncode == 0, done.stderr
    assert "default/chat: 2 of 3 replicas ready; token budget 96 in force" in done.stdout
    assert "budget Lower (ItlPrefillBound, limited by AtFloor)" in done.stdout


def test_explain_keeps_each_sentence_on_one_line_where_no_terminal_reads_it(
    fleets: FleetApi,
) -> None:
    lines = run(fleets.server.kubeconfig, "explain", "chat").stdout.splitlines()
    said = json.loads(run(fleets.server.kubeconfig, "explain", "chat", "--json").stdout)
    assert [line for line in lines if line.endswith(said["changes"][0][-40:])]
    assert all("as sentences with figures are." not in line or len(line) > 160 for line in lines)


def test_explain_as_json(fleets: FleetApi) -> None:
    document = json.loads(run(fleets.server.kubeconfig, "explain", "chat", "--json").stdout)
    assert set(document) >= {"summary", "measured", "considered", "binding", "changes", "status"}


def test_an_object_without_status_yet(fleets: FleetApi) -> None:
    done = run(fleets.server.kubeconfig, "status", "fresh")
    assert done.returncode == 0, done.stderr
    assert "No decision yet." in done.stdout


@pytest.mark.parametrize("command", ["status", "explain"])
def test_a_missing_object_is_one_line(fleets: FleetApi, command: str) -> None:
    done = run(fleets.server.kubeconfig, command, "absent")
    assert done.returncode == 1
    assert done.stderr == (
        "error: InferenceService 'absent' not found in namespace 'default'; name another with -n\n"
    )


def test_a_user_without_rights_gets_one_line(fleets: FleetApi) -> None:
    done = run(fleets.server.kubeconfig_for("nobody"), "status", "chat")
    assert done.returncode == 1
    assert done.stderr.startswith("error: no access")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("text", [None, "", "hello", "a: ["])
def test_no_kubeconfig_is_one_line(text: str | None, tmp_path: Path) -> None:
    file = tmp_path / "config"
    if text is not None:
        file.write_text(text)
    done = run(file, "status", "chat")
    assert done.returncode == 1
    assert done.stderr.startswith("error: no usable kubeconfig: ")
    assert "set KUBECONFIG" in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_unknown_context_is_one_line(fleets: FleetApi) -> None:
    done = run(fleets.server.kubeconfig, "status", "chat", "--context", "other")
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1


def test_a_server_that_is_away_is_one_line(fleets: FleetApi, tmp_path: Path) -> None:
    text = fleets.server.kubeconfig.read_text().replace(fleets.server.url, "https://127.0.0.1:1")
    away = tmp_path / "config"
    away.write_text(text)
    done = run(away, "status", "chat")
    assert done.returncode == 1
    assert done.stderr.startswith("error: the API server cannot be asked")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("flags", "begun"),
    [(["--json"], "{\n"), ([], "default/chat\n")],
)
def test_watch_goes_on_until_interrupted(fleets: FleetApi, flags: list[str], begun: str) -> None:
    environment = {**os.environ, "KUBECONFIG": str(fleets.server.kubeconfig)}
    command = [str(PROGRAM), "status", "chat", "--watch", *flags]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        looks = 0
        for line in process.stdout:
            looks += line == begun
            if looks == 2:
                break
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        process.stdout.read()
    assert process.returncode == 130


@pytest.mark.parametrize(
    ("term", "is_terminal"),
    [("dumb", True), ("unknown", True), ("xterm", False)],
)
async def test_views_come_one_below_the_other_where_none_can_be_drawn_over(
    term: str, is_terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=is_terminal, width=120, _environ={"TERM": term})
    monkeypatch.setattr(commands, "_console", lambda: console)
    counts: list[int] = []

    async def seen() -> AsyncIterator[Service]:
        for _ in range(3):
            counts.append(shown.getvalue().count("default/chat"))
            yield service()

    await commands._watch(seen())
    assert counts == [0, 1, 2]


@pytest.mark.behaviour(
    "an interrupt ends the plug-in silently with 130, at any time",
    report="Ctrl-C in the first second printed a traceback of the interpreter's imports",
)
def test_an_interrupt_while_it_starts_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("import time\nprint('begun', flush=True)\ntime.sleep(60)\n")
    path = os.pathsep.join((str(tmp_path), os.environ.get("PYTHONPATH", "")))
    with subprocess.Popen(
        [str(PROGRAM), "--help"],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGINT)
        assert process.communicate() == ("", "")
    assert process.returncode == 130
