"""`python3 -m e2e.setup`: standard library only, and one line for every failure."""

import fcntl
import os
import subprocess
from pathlib import Path

import pytest

from tests.support.tree import ROOT

# Isolated from this environment's packages: a fresh machine has the standard library alone.
COMMAND = ["/usr/bin/env", "python3", "-S", "-m", "e2e.setup"]


def set_up(cache: str, *goals: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PACELINE_CACHE": cache}
    return subprocess.run(
        [*COMMAND, *goals], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("cache", ["/dev/null/cache", "relative/cache"])
def test_a_cache_that_cannot_be_is_one_line(cache: str) -> None:
    done = set_up(cache, "operator")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("setup: ")
    assert cache in line
    assert "PACELINE_CACHE" in line


def test_a_cache_that_is_a_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "cache").touch()
    done = set_up(str(tmp_path / "cache"), "operator")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert f"setup: {tmp_path / 'cache'}: File exists" in line


def test_what_is_done_is_found_without_any_package(tmp_path: Path) -> None:
    done = set_up(str(tmp_path), "--as-is", "operator")
    assert (done.returncode, "operator-env" in done.stderr) == (0, True)
    assert "cached" in done.stderr


def test_it_says_that_it_waits_for_another(tmp_path: Path) -> None:
    environment = {**os.environ, "PACELINE_CACHE": str(tmp_path)}
    with (tmp_path / "setup.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write("process 7, since 10:00:00, its logs are in /its/logs")
        lock.flush()
        with subprocess.Popen(
            [*COMMAND, "--as-is", "operator"],
            cwd=ROOT,
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        ) as child:
            assert child.stderr is not None
            first = child.stderr.readline()
            assert first.startswith("setup: waiting for another to end, for 0 s: process 7, ")
            assert "/its/logs" in first
            fcntl.flock(lock, fcntl.LOCK_UN)
            assert "cached" in child.stderr.read()
    assert child.returncode == 0
