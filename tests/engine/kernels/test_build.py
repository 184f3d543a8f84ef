"""Compiling the kernels, and finding what was compiled."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from paceline_engine.kernels.cpu import artifact


def run_build(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "paceline_engine.kernels.cpu.build", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
    )


def test_build_compiles_once(tmp_path: Path) -> None:
    first = run_build("--output", str(tmp_path))
    assert first.returncode == 0, first.stderr
    (made,) = tmp_path.iterdir()
    assert made.name == artifact.file_name()
    stamp = made.stat().st_mtime_ns
    again = run_build("--output", str(tmp_path))
    assert again.stdout == f"kernels: {made}\n"
    assert made.stat().st_mtime_ns == stamp


def test_missing_compiler_is_one_line(tmp_path: Path) -> None:
    done = run_build("--output", str(tmp_path / "new"), CXX="no-such-compiler")
    assert done.returncode == 1
    assert done.stderr == ("kernels: no C++ compiler 'no-such-compiler': install g++ or set CXX\n")


def test_a_place_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run_build("--output", str(tmp_path / "file" / "folder"))
    assert done.returncode == 1
    assert done.stderr.startswith("kernels: cannot write to ")
    assert done.stderr.count("\n") == 1


def test_a_failing_compiler_leaves_nothing_behind(tmp_path: Path) -> None:
    done = run_build("--output", str(tmp_path), CXX="false")
    assert done.returncode == 1
    assert "kernels: false ended with code 1" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_variable_names_the_only_place(tmp_path: Path) -> None:
    environment = {artifact.DIRECTORY_VARIABLE: str(tmp_path)}
    assert artifact.find(environment) is None
    made = tmp_path / artifact.file_name()
    made.touch()
    assert artifact.find(environment) == made


def test_the_cache_is_searched_last(tmp_path: Path) -> None:
    assert artifact.search_path({"PACELINE_CACHE": str(tmp_path)}) == [
        artifact.PACKAGE_DIRECTORY,
        tmp_path / "kernels",
    ]
