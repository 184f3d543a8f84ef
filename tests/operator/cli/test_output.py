"""What cannot be printed: where it goes cannot take it, nobody reads it, no encoding has it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.operator.autopilot.test_record import recorded

PROGRAM = Path(sys.executable).parent / "kubectl-paceline"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("records") / "l\u00f6ad.jsonl"
    path.write_text("".join(f"{line}\n" for line in recorded(12.0, 60.0).lines))
    return path


@pytest.fixture(scope="module")
def edited(file: Path) -> Path:
    """Its one decision is about a name that no encoding has, and differs."""
    document = json.loads(file.read_text().splitlines()[0])
    document["object"] = "\ud800"
    document["tick"]["decisions"] = []
    path = file.with_name("l\u00f6ad2.jsonl")
    path.write_text(json.dumps(document) + "\n")
    return path


@pytest.mark.behaviour(
    "a full disk is an error in one line, never the exit code of an answer",
    report="replay into a full disk ended with a traceback and 1, as records that differ do",
)
@pytest.mark.parametrize(("command", "code"), [("replay", 2), ("--help", 1)])
def test_what_cannot_be_written_is_one_line(file: Path, command: str, code: int) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [str(PROGRAM), command, str(file)],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == code
    assert done.stderr == (
        "error: standard output: No space left on device; write it to another place\n"
    )


@pytest.mark.parametrize("command", ["replay", "--help"])
def test_a_pipe_that_nobody_reads_ends_it_silently(file: Path, command: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [str(PROGRAM), command, str(file)],
        stdout=writer, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


def test_an_error_that_cannot_be_told_keeps_its_exit_code(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [str(PROGRAM), "replay", str(tmp_path / "none")], stderr=full, check=False
        )
    assert done.returncode == 2


@pytest.mark.parametrize("closed", ["1>&-", "2>&-", "1>&- 2>&-"])
def test_streams_may_be_closed(file: Path, closed: str) -> None:
    done = subprocess.run(
        ["sh", "-c", f'"$0" replay "$1" {closed}', str(PROGRAM), str(file)], check=False
    )
    assert done.returncode == 0


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_what_the_encoding_lacks_is_written_as_escapes(edited: Path, encoding: str) -> None:
    done = subprocess.run(
        [str(PROGRAM), "replay", str(edited)],
        env={**os.environ, "PYTHONIOENCODING": encoding},
        capture_output=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, b"")
    said = done.stdout.decode(encoding)
    assert ("l\\xf6ad2" if encoding == "ascii" else "l\u00f6ad2") in said
    assert "\\ud800" in said
