"""`make` targets: the promised ones exist, and README names only existing ones."""

from __future__ import annotations

import re
import subprocess

from tests.support.tree import ROOT

PROMISED = {
    "demo",
    "demo-down",
    "test",
    "unit",
    "lint",
    "types",
    "imports",
    "crds",
    "verify",
    "e2e",
    "cluster-up",
    "cluster-down",
    "cluster-status",
    "bench-engine",
    "conformance",
    "chaos",
    "clean",
}


def targets() -> set[str]:
    return set(re.findall(r"^([a-z0-9-]+):.*## ", (ROOT / "Makefile").read_text(), re.M))


def test_help_lists_what_is_promised() -> None:
    out = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert set(out.stdout.split()) >= PROMISED
    assert targets() >= PROMISED


def test_readme_names_existing_targets() -> None:
    named = set(re.findall(r"`make ([a-z0-9-]+)", (ROOT / "README.md").read_text()))
    assert named
    assert named <= targets()


def test_later_targets_say_so_and_fail() -> None:
    for target in ("conformance", "chaos"):
        done = subprocess.run(
            ["make", target], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert done.returncode != 0
        assert "later issue" in done.stderr


def test_ci_runs_the_test_command_of_the_readme() -> None:
    assert "make test" in (ROOT / ".ci" / "run").read_text()
    assert "make test" in (ROOT / "README.md").read_text()
