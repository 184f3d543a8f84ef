"""`docs/behaviours-engine.md`: what the engine promises, read from the tests that hold it.

A test says so itself: `@pytest.mark.behaviour("what holds", report="kind of report")`. The
sources are parsed, not run, so the page can be written in either environment:

    python -m tests.verify.behaviours --write
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from tests.support.tree import ROOT
from tests.verify.check import Check, difference

PAGE = "docs/behaviours-engine.md"
SOURCES = ("tests/engine", "tests/robust", "tests/bench")
MARKER = "pytest.mark.behaviour"
REMEDY = "make behaviours"
HEAD = """\
# Behaviours of the engine

Generated from the tests by `make behaviours`; never edited. Each line is held by the test
named beside it. The last column names the kind of report from users of other engines that the
behaviour answers, or the promise of our own that it keeps.
"""


class MalformedMarkerError(Exception):
    """A marker without plain texts; the message names file and line."""


@dataclass(frozen=True, slots=True, order=True)
class Behaviour:
    """One line of the page.

    Attributes:
        area: Package of the engine whose test holds it.
        test: Path and name of the test.
        line: What holds.
        report: Kind of report it stands for.
    """

    area: str
    test: str
    line: str
    report: str


def checks(root: Path) -> list[Check]:
    """The page against the tests."""
    return [Check(f"{PAGE} is what the tests say", lambda: stale(root), REMEDY)]


def stale(root: Path) -> list[str]:
    """Differences between the page and what the tests say."""
    path = root / PAGE
    if not path.is_file():
        return [f"{PAGE} is missing"]
    try:
        return difference(PAGE, path.read_text(), page(root))
    except MalformedMarkerError as error:
        return [str(error)]


def page(root: Path) -> str:
    """The page as it should be.

    Raises:
        MalformedMarkerError: A marker cannot be read.
    """
    found = sorted(each for source in SOURCES for each in collect(root, source))
    parts = [HEAD]
    for area, each in groupby(found, key=lambda behaviour: behaviour.area):
        rows = "\n".join(f"| {b.line} | {b.report} | `{b.test}` |" for b in each)
        parts.append(f"## {area}\n\n| what holds | report | test |\n|---|---|---|\n{rows}\n")
    return "\n".join(parts)


def collect(root: Path, source: str) -> Iterator[Behaviour]:
    """Every marked test below a directory.

    Args:
        root: Of the checkout.
        source: Directory with tests, below it.

    Raises:
        MalformedMarkerError: A marker cannot be read.
    """
    for path in sorted((root / source).rglob("test_*.py")):
        place = path.relative_to(root / "tests")
        area = " ".join(place.parts[:-1]).removeprefix("engine ").replace("bench", "robust")
        for name, marker in _marked(ast.parse(path.read_text())):
            line, report = _texts(marker, path)
            yield Behaviour(area, f"{place.as_posix()}::{name}", line, report)


def _marked(tree: ast.Module) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for mark in node.decorator_list:
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == MARKER:
                    yield node.name, mark


def _texts(marker: ast.Call, path: Path) -> tuple[str, str]:
    named = {each.arg: each.value for each in marker.keywords}
    parts = [*marker.args, *(named[key] for key in ("line", "report") if key in named)]
    texts = [each.value for each in parts if isinstance(each, ast.Constant)]
    line, report = [*texts, None, None][:2]
    if not (isinstance(line, str) and isinstance(report, str) and len(texts) == len(parts) == 2):
        raise MalformedMarkerError(
            f"{path}:{marker.lineno}: write behaviour('what holds', report='kind of report')"
        )
    return _cell(line), _cell(report)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        (ROOT / PAGE).write_text(page(ROOT))
    else:
        print(page(ROOT), end="")
