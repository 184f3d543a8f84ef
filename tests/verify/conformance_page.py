"""The tables in `docs/conformance.md`: what a committed run of the evaluation found.

The text around them is written by hand; what is between the marks is not, and the first mark
names the result that it is made from:

    python -m tests.verify.conformance_page --write [RESULT.json]
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from bench.conformance import markdown, result_file
from bench.conformance.evaluation import Evaluation
from bench.conformance.result_file import ResultError
from tests.support.tree import ROOT
from tests.verify.check import Check, difference

PAGE = "docs/conformance.md"
RESULTS = "bench/results"
COMMAND = "python -m tests.verify.conformance_page --write"
BEGIN = re.compile(r"<!-- tables of bench/results/(?P<name>[\w-]+\.json): written by .* -->\n")
END = "<!-- end of tables -->\n"


def checks(root: Path) -> list[Check]:
    """The tables against the result that the page names."""
    return [Check(f"{PAGE} has the figures of its result", lambda: stale(root), COMMAND)]


def stale(root: Path) -> list[str]:
    """Differences between the page and its result."""
    path = root / PAGE
    if not path.is_file():
        return [f"{PAGE} is missing"]
    text = path.read_text()
    mark = BEGIN.search(text)
    if mark is None or END not in text:
        return [f"{PAGE} has no tables: {BEGIN.pattern.strip()} .. {END.strip()}"]
    try:
        return difference(PAGE, text, with_tables(text, root / RESULTS / mark["name"]))
    except ResultError as error:
        return [str(error)]


def with_tables(text: str, result: Path) -> str:
    """The page with the tables of a result, which it names from then on."""
    mark = BEGIN.search(text)
    if mark is None:
        raise ResultError(f"{PAGE} has no place for tables")
    begin = f"<!-- tables of {RESULTS}/{result.name}: written by `{COMMAND}` -->\n"
    rest = text[mark.end() :].partition(END)[2]
    return text[: mark.start()] + begin + tables(result_file.load(result)) + END + rest


def tables(evaluation: Evaluation) -> str:
    """All of them, each below what it is called."""
    parts = (
        ("Beside the best of the others", markdown.best_of_the_others(evaluation)),
        ("Beside each of the others", markdown.beside_each(evaluation)),
        ("Bars", markdown.bars(evaluation)),
        ("Without a part", markdown.without_a_part(evaluation)),
    )
    told = f"\n`{evaluation.line}`\n"
    return told + "".join(f"\n### {title}\n\n{table}" for title, table in parts) + "\n"


def main() -> None:
    """Prints the page, or writes it."""
    parser = argparse.ArgumentParser(prog="python -m tests.verify.conformance_page")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("result", type=Path, nargs="?", help="default: the one it is made from")
    args = parser.parse_args()
    text = (ROOT / PAGE).read_text()
    mark = BEGIN.search(text)
    named = ROOT / RESULTS / mark["name"] if mark else Path()
    found = with_tables(text, args.result or named)
    if args.write:
        (ROOT / PAGE).write_text(found)
    else:
        print(found, end="")


if __name__ == "__main__":
    main()
