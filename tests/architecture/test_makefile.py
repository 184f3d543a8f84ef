"""`make` targets: the promised ones exist, and documents name only existing ones."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.tree import ROOT
from tests.verify.recap import LAST_LINES, recap

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
    "validation",
    "bench-operator",
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


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md", "docs/e2e.md"])
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
    for target in ("chaos",):
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


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    """As from a shell: a `make` that runs these tests hands its own variables down."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    command = ["make", *arguments]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, env=kept, timeout=160
    )


def test_each_test_runs_in_one_part_of_unit() -> None:
    """A part that names a folder twice, or none, would run its tests twice, or never."""
    parts = [
        make("-n", f"unit-{part}").stdout.split("-m pytest -q ")[1].split(" 2>&1")[0].split()
        for part in SAMPLES
    ]
    for path in (ROOT / "tests").rglob("test_*.py"):
        name = path.relative_to(ROOT).as_posix()
        assert [takes(words, name) for words in parts].count(True) == 1, name


def takes(words: list[str], name: str) -> bool:
    ignored = [word.removeprefix("--ignore=") for word in words if word.startswith("--ignore=")]
    return any(name.startswith(f"{word}/") for word in words) and not any(
        name.startswith(f"{word}/") for word in ignored
    )


SAMPLES = {
    "operator": "def test_good() -> None:\n    assert True\n",
    "fleets": "def test_good() -> None:\n    assert True\n",
    "serving": "def test_bad() -> None:\n    assert 1 == 2\n",
    "engine": "import missing_module\n",
}


def test_unit_ends_with_what_failed_in_each_part(tmp_path: Path) -> None:
    for part, text in SAMPLES.items():
        (tmp_path / part).mkdir()
        (tmp_path / part / f"test_{part}_sample.py").write_text(text)
    place = Path(sys.executable).parent
    chosen = [f"{part.upper()}_TESTS={tmp_path / part}" for part in SAMPLES]
    done = make("parts", f"OP={place}", f"EN={place}", *chosen)
    assert done.returncode != 0
    said = done.stdout.split("--- in short\n")[1].splitlines()
    assert [re.sub(r"\S*/| - .*| in [\d.]+s.*", "", line) for line in said] == [
        "operator: 1 passed",
        "fleets: 1 passed",
        "serving: FAILED test_serving_sample.py::test_bad",
        "serving: 1 failed",
        "engine: ERROR test_engine_sample.py",
        "engine: 1 error",
    ]
    assert make("parts", f"OP={place}", f"EN={place}", *passing(tmp_path)).returncode == 0


def passing(folder: Path) -> list[str]:
    return [f"{part.upper()}_TESTS={folder / 'operator'}" for part in SAMPLES]


def test_a_part_that_ends_without_a_summary_shows_its_last_lines() -> None:
    lines = ["e: FAILED a", "e: 1 failed in 2.00s", *(f"e: trace {n}" for n in range(40))]
    assert recap(lines) == ["e: FAILED a", *lines[-LAST_LINES:]]
    assert recap([]) == []
    assert recap(["e: FAILED a - x", "e: 1 failed, 2 passed in 70.00s (0:01:10)", ""]) == [
        "e: FAILED a - x",
        "e: 1 failed, 2 passed in 70.00s (0:01:10)",
    ]
