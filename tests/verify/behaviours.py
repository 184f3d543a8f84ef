"""`docs/behaviours-*.md`: what engine and operator promise, read from the tests that hold it.

A test says so itself: `@pytest.mark.behaviour("what holds", report="kind of report")`. The
sources are parsed, not run, so the page can be written in either environment:

    python -m tests.verify.behaviours --write
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path

from tests.support.tree import ROOT
from tests.verify.check import Check, difference

MARKER = "pytest.mark.behaviour"
REMEDY = "make behaviours"
_HEAD = """\
# Behaviours of the {member}

Generated from the tests by `make behaviours`; never edited. Each line is held by the test
named beside it. The last column names {reports}
"""


@dataclass(frozen=True, slots=True)
class Page:
    """A page and where its lines come from.

    Attributes:
        path: Of the page, below the checkout.
        sources: Directories with tests.
        head: What it begins with.
    """

    path: str
    sources: tuple[str, ...]
    head: str


ENGINE = Page(
    path="docs/behaviours-engine.md",
    sources=("tests/engine", "tests/robust", "tests/bench"),
    head=_HEAD.format(
        member="engine",
        reports="""the kind of report from users of other engines that the
behaviour answers, or the promise of our own that it keeps.""",
    ),
)
OPERATOR = Page(
    path="docs/behaviours-operator.md",
    sources=("tests/operator", "tests/charts", "tests/e2e"),
    head=_HEAD.format(
        member="operator",
        reports="""the report from users of other autoscalers that the
behaviour answers, or what went wrong here; [failure-modes.md](failure-modes.md) has what is
injected on purpose.""",
    ),
)
PAGES = (ENGINE, OPERATOR)


class MalformedMarkerError(Exception):
    """A marker without plain texts; the message names file and line."""


@dataclass(frozen=True, slots=True, order=True)
class Behaviour:
    """One line of the page.

    Attributes:
        area: Package whose test holds it.
        test: Path and name of the test.
        line: What holds.
        report: Kind of report it stands for.
    """

    area: str
    test: str
    line: str
    report: str


def checks(root: Path) -> list[Check]:
    """Each page against the tests."""
    return [
        Check(f"{page.path} is what the tests say", partial(stale, root, page), REMEDY)
        for page in PAGES
    ]


def stale(root: Path, page: Page) -> list[str]:
    """Differences between a page and what the tests say."""
    path = root / page.path
    if not path.is_file():
        return [f"{page.path} is missing"]
    try:
        return difference(page.path, path.read_text(), text(root, page))
    except MalformedMarkerError as error:
        return [str(error)]


def text(root: Path, page: Page) -> str:
    """A page as it should be.

    Raises:
        MalformedMarkerError: A marker cannot be read.
    """
    found = sorted(each for source in page.sources for each in collect(root, source))
    parts = [page.head]
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
        area = " ".join(place.parts[:-1]).replace("bench", "robust")
        area = area.removeprefix("engine ").removeprefix("operator ")
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
    for each in PAGES:
        if sys.argv[1:] == ["--write"]:
            (ROOT / each.path).write_text(text(ROOT, each))
        else:
            print(text(ROOT, each), end="")
