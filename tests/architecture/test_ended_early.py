"""Tests that are ended early leave nothing: no folder when terminated, no process when killed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.tree import ROOT

BODY = """
import subprocess, sys, tempfile, time
from pathlib import Path
import pytest
from tests.support.leash import leashed

@pytest.fixture(scope="session")
def place():
    with tempfile.TemporaryDirectory(prefix="place-", dir=Path(__file__).parent) as name:
        yield name

def test_waits(place):
    child = subprocess.Popen(leashed(["sleep", "600"]))
    (Path(__file__).parent / "partial").write_text(str(child.pid))
    (Path(__file__).parent / "partial").rename(Path(__file__).parent / "started")
    time.sleep(600)
"""
LIMIT_S = 90


@contextmanager
def waiting_tests(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Tests that are in the middle of one, and the process that this one started."""
    (folder / "test_it.py").write_text(BODY)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest"]
    where = ["-p", "no:cacheprovider", f"--rootdir={folder}", "-c", "/dev/null"]
    with subprocess.Popen(
        [*command, *where, str(folder / "test_it.py")],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as tests:
        try:
            until((folder / "started").exists)
            yield tests, int((folder / "started").read_text())
        finally:
            tests.kill()


def until(holds: Callable[[], bool]) -> None:
    limit = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < limit
        time.sleep(0.05)


def is_gone(pid: int) -> bool:
    try:
        return "sleep" not in Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return True


def test_terminated_tests_clean_up(tmp_path: Path) -> None:
    with waiting_tests(tmp_path) as (tests, child):
        assert len(list(tmp_path.glob("place-*"))) == 1
        tests.terminate()
        assert tests.wait(LIMIT_S) == pytest.ExitCode.INTERRUPTED
        until(lambda: is_gone(child))
    assert list(tmp_path.glob("place-*")) == []


def test_killed_tests_take_their_processes_with_them(tmp_path: Path) -> None:
    with waiting_tests(tmp_path) as (tests, child):
        assert not is_gone(child)
        tests.kill()
        until(lambda: is_gone(child))


def test_helpers_start_no_server_without_it() -> None:
    """Each server of `tests/support` is on the leash."""
    found = []
    for path in sorted((ROOT / "tests/support").glob("*.py")):
        text = path.read_text()
        if "subprocess.Popen(" in text and "leashed(" not in text:
            found.append(path.name)
    assert found == []
