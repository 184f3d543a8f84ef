"""The house rules that no linter knows: sizes, names, and where `operator` may not be."""

from __future__ import annotations

import ast
import statistics
from pathlib import Path

import pytest

from tests.support.tree import ROOT, tracked

SOURCES = ("operator/src", "engine/src", "e2e", "bench")
BANNED_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "operator"}
MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 60
MEDIAN_FUNCTION_LINES = 10
P90_FILE_LINES = 250


def source_files() -> list[Path]:
    roots = [ROOT / source for source in SOURCES]
    return [p for p in tracked(".py") if any(p.is_relative_to(root) for root in roots)]


def lines_of(path: Path) -> int:
    return len(path.read_text().splitlines())


def functions_of(path: Path) -> list[tuple[str, int]]:
    """(location, lines of code without the docstring) of each function."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            doc = ast.get_docstring(node, clean=False)
            doc_lines = (first.end_lineno or first.lineno) - first.lineno + 1 if doc else 0
            length = (node.end_lineno or node.lineno) - node.lineno + 1 - doc_lines
            found.append((f"{path.relative_to(ROOT)}:{node.lineno} {node.name}", length))
    return found


def test_no_file_is_too_long() -> None:
    files = tracked(".py", ".go", ".cpp", ".h")
    assert [(lines_of(p), str(p)) for p in files if lines_of(p) > MAX_FILE_LINES] == []


def test_most_source_files_are_short() -> None:
    lengths = sorted(lines_of(p) for p in source_files())
    assert lengths[int(len(lengths) * 0.9)] <= P90_FILE_LINES


def test_functions_are_short() -> None:
    functions = [f for path in source_files() for f in functions_of(path)]
    assert [f for f in functions if f[1] > MAX_FUNCTION_LINES] == []
    assert statistics.median(length for _, length in functions) <= MEDIAN_FUNCTION_LINES


def test_names_say_something() -> None:
    bad = [p for p in tracked(".py") if p.stem in BANNED_NAMES or p.parent.name in BANNED_NAMES]
    allowed = {ROOT / "tests" / "operator"}
    assert [p for p in bad if p.parent not in allowed] == []


@pytest.mark.parametrize("folder", ["operator", "tests/operator", "tests/engine"])
def test_no_package_shadows_the_standard_library(folder: str) -> None:
    assert not (ROOT / folder / "__init__.py").exists()


def test_tests_mirror_sources() -> None:
    """A test file stands where its module stands, so that it is found without searching."""
    misplaced = []
    for member in ("operator", "engine"):
        package = ROOT / member / "src" / f"paceline_{member}"
        for test in (ROOT / "tests" / member).rglob("test_*.py"):
            folder = package / test.parent.relative_to(ROOT / "tests" / member)
            if not folder.is_dir():
                misplaced.append(str(test.relative_to(ROOT)))
    assert misplaced == []
