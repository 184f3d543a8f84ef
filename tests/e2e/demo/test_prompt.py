"""What the demo shows as its commands are its commands: a shell takes them as they stand."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from e2e.demo import prompt
from e2e.demo.manifest import read
from e2e.kubectl import Kubectl
from tests.support.tree import ROOT

TUNING = {"spec": {"tuning": {"mode": "Recommend"}}}


@pytest.fixture
def kubectl(tmp_path: Path) -> Kubectl:
    """Prints the words that it gets, one a line."""
    program = tmp_path / "kubectl"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    program.chmod(0o755)
    return Kubectl(program, tmp_path / "config", "paceline-demo", "there")


def pasted(line: str, kubectl: Kubectl) -> list[str]:
    done = subprocess.run(
        ["sh", "-c", line.removeprefix("$ ")],
        env=kubectl.environment(),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def test_a_patch_is_shown_as_it_can_be_pasted(
    kubectl: Kubectl, capsys: pytest.CaptureFixture[str]
) -> None:
    prompt.patch(kubectl, "smollm2", TUNING)
    line, *ran = capsys.readouterr().out.splitlines()
    assert line == (
        "$ kubectl -n paceline-demo --context there patch infs smollm2 --type merge "
        '-p \'{"spec":{"tuning":{"mode":"Recommend"}}}\''
    )
    shown = pasted(line, kubectl)
    assert json.loads(shown[-1]) == TUNING
    assert set(shown) == set(ran) - {"--kubeconfig", str(kubectl.kubeconfig)}


def test_a_plug_in_is_named_before_its_flags(
    kubectl: Kubectl, capsys: pytest.CaptureFixture[str]
) -> None:
    prompt.run(kubectl, "paceline", "explain", "s")
    line, *ran = capsys.readouterr().out.splitlines()
    assert pasted(line, kubectl) == ran


def test_a_sample_is_applied_from_the_root_of_the_checkout(
    kubectl: Kubectl, capsys: pytest.CaptureFixture[str]
) -> None:
    prompt.apply(kubectl, read("smollm2"))
    line = capsys.readouterr().out.splitlines()[1]
    assert (ROOT / pasted(line, kubectl)[-1]).is_file()


def test_a_changed_sample_is_made_and_applied_in_one_line(
    kubectl: Kubectl, capsys: pytest.CaptureFixture[str]
) -> None:
    taken = 'case "$*" in *"apply -f -") cat ;; esac'
    kubectl.program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@"\n{taken}\n')
    prompt.apply_patched(kubectl, read("smollm2"), TUNING)
    _, line, *ran = capsys.readouterr().out.splitlines()
    known = {"--kubeconfig", str(kubectl.kubeconfig)}
    shown = pasted(line, kubectl)
    assert [str(ROOT / word) if "samples" in word else word for word in shown] == [
        word for word in ran if word not in known
    ]
    assert shown.index("apply") < shown.index("patch"), "what the second was given comes after"
    assert json.loads(shown[shown.index("-p") + 1]) == TUNING


@pytest.mark.parametrize("source", sorted((ROOT / "e2e/demo").glob("*.py")), ids=lambda p: p.name)
def test_no_command_is_shown_in_other_words(source: Path) -> None:
    assert re.findall(r"\$ kubectl \w+", source.read_text()) == []
