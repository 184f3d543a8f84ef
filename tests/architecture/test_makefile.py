"""`make` targets: the promised ones exist, and documents name only existing ones."""

from __future__ import annotations

import re
import subprocess

import pytest

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


def run(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_help_lists_what_is_promised() -> None:
    assert set(run("make", "help").split()) >= PROMISED
    assert targets() >= PROMISED


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_documents_name_existing_targets(document: str) -> None:
    shown = named((ROOT / document).read_text())
    assert shown
    assert shown - targets() == set()


def named(text: str) -> set[str]:
    """Targets in prose and in the commands of code blocks, with or without a prompt."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.M | re.S)
    commands = [
        c
        for body in blocks
        for c in re.findall(r"(?:^|[;&] *)(?:\$ )?(?:\w+=\S+ +)*make +(.*)", body, re.M)
    ]
    prose = re.findall(r"`make ([^`]+)`", text)
    words = [
        word for line in (*commands, *prose) for word in re.split(r"\s+#|[;&|]", line)[0].split()
    ]
    return {word for word in words if re.fullmatch(r"[a-z][a-z0-9-]*", word)}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see `make demo` and `make unit`", {"demo", "unit"}),
        ("```sh\nmake demo   # the main job\n$ make test\n```", {"demo", "test"}),
        ("```\ncd x && make lint types\n```", {"lint", "types"}),
        ("```\nPACELINE_CLUSTER=built\nA=1 make demo\n```", {"demo"}),
        ("make sure of it", set()),
    ],
)
def test_targets_are_found_in_prose_and_blocks(text: str, found: set[str]) -> None:
    assert named(text) == found


def test_later_targets_say_so_and_fail() -> None:
    helped = run("make", "help")
    for target in ("conformance", "chaos"):
        done = subprocess.run(
            ["make", target], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert done.returncode != 0
        assert "later issue" in done.stderr
        assert f"  {target:16} (not built yet) " in helped


def test_clean_removes_what_this_checkout_made_and_nothing_that_is_tracked() -> None:
    recipe = run("make", "-n", "clean").replace("\\\n", " ")
    removed = recipe.split()[2:]
    kernels = "engine/src/paceline_engine/kernels/cpu/_build"
    assert {".venv-operator", ".venv-engine", "bench/results/demo", kernels} <= set(removed)
    assert run("git", "ls-files", *removed) == ""


def test_ci_runs_the_test_command_of_the_readme() -> None:
    assert "make test" in (ROOT / ".ci" / "run").read_text()
    assert "make test" in (ROOT / "README.md").read_text()
