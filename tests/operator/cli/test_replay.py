"""`kubectl paceline replay`: recorded decisions made again, byte for byte."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.operator.autopilot.test_record import recorded

PROGRAM = Path(sys.executable).parent / "kubectl-paceline"


@pytest.fixture(scope="module")
def lines() -> list[str]:
    return recorded(12.0, 60.0).lines


def replay(path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(PROGRAM), "replay", str(path)], capture_output=True, text=True, check=False
    )


def written(path: Path, lines: list[str], end: str = "\n") -> Path:
    path.write_text("\n".join(lines) + end)
    return path


def test_the_same_bytes_are_ok(tmp_path: Path, lines: list[str]) -> None:
    done = replay(written(tmp_path / "a.jsonl", lines))
    assert (done.returncode, done.stdout) == (0, f"replay: ok {len(lines)} decisions\n")


@pytest.mark.parametrize("kept", [100, None])
def test_a_last_line_cut_short_is_left_out_and_said(
    tmp_path: Path, lines: list[str], kept: int | None
) -> None:
    """Also where only the line's end is missing: nobody knows that nothing else is."""
    path = written(tmp_path / "a.jsonl", [*lines, lines[-1][:kept]], end="")
    done = replay(path)
    assert (done.returncode, done.stdout) == (0, f"replay: ok {len(lines)} decisions\n")
    said = f"{path}:{len(lines) + 1}: the line was cut short, so it was left out"
    assert done.stderr == f"note: {said}\n"


def test_each_mismatch_is_one_line(tmp_path: Path, lines: list[str]) -> None:
    """The last answer is changed, so that no other one follows from it."""
    document = json.loads(lines[-1])
    document["tick"]["decisions"][0]["after"] = 7
    changed = json.dumps(document, separators=(",", ":"))
    path = written(tmp_path / "a.jsonl", [*lines[:-1], changed])
    done = replay(path)
    assert done.returncode == 1
    said, last = done.stdout.splitlines()
    assert said.startswith(f"{path}:{len(lines)}: default/chat: tick.decisions[0].after was 7, is ")
    assert last == f"replay: 1 of {len(lines)} decisions differ"


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"{}\n", ":1: it is no record of version 1"),
        (b"[" * 30_000 + b"\n", ":1: it is nested too deep"),
        (b"\xff\xfe\n", "it is no text"),
        (None, "No "),
        (b"", "no whole decision is in it, so none was made again"),
        (b'{"version": 1', "no whole decision is in it"),
    ],
)
def test_what_cannot_be_read_is_one_line(tmp_path: Path, content: bytes | None, what: str) -> None:
    path = tmp_path / "a.jsonl"
    if content is not None:
        path.write_bytes(content)
    done = replay(path)
    assert done.returncode == 2
    assert done.stdout == ""
    *notes, error = done.stderr.splitlines()
    assert error.startswith(f"error: {path}")
    assert what in error
    assert len(notes) == (content == b'{"version": 1')


def test_a_key_of_several_lines_is_shown_on_one(tmp_path: Path, lines: list[str]) -> None:
    document = {**json.loads(lines[0]), "object": "a\n\x1b[2Jb", "tick": {}}
    done = replay(written(tmp_path / "a.jsonl", [json.dumps(document)]))
    said, last = done.stdout.splitlines()
    assert r": a\n\x1b[2Jb: " in said
    assert last == "replay: 1 of 1 decisions differ"
