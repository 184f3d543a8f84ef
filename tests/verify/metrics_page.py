"""The table in `docs/metrics-engine.md`: every family that an engine reports.

The text around it is written by hand; the table between the two marks is not:

    python -m tests.verify.metrics_page --write
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.tree import ROOT
from tests.verify.check import Check, difference

sys.path.append(str(ROOT / "engine" / "src"))  # the operator's environment has no engine
from paceline_engine.server import metric_names as names

PAGE = "docs/metrics-engine.md"
BEGIN = "<!-- families: written by `python -m tests.verify.metrics_page --write` -->\n"
END = "<!-- end of families -->\n"
REMEDY = "python -m tests.verify.metrics_page --write"


def checks(root: Path) -> list[Check]:
    """The table against the families."""
    return [Check(f"{PAGE} lists every family", lambda: stale(root), REMEDY)]


def stale(root: Path) -> list[str]:
    """Differences between the page and the families there are."""
    path = root / PAGE
    if not path.is_file():
        return [f"{PAGE} is missing"]
    text = path.read_text()
    if BEGIN not in text or END not in text:
        return [f"{PAGE} has no table: {BEGIN.strip()} .. {END.strip()}"]
    return difference(PAGE, text, with_table(text))


def with_table(text: str) -> str:
    """The page with the table as it should be."""
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + table() + END + rest.partition(END)[2]


def table() -> str:
    """One row for each family, in the order of their declaration."""
    rows = (_row(family) for family in names.FAMILIES)
    return "| family | type | labels | meaning |\n|---|---|---|---|\n" + "".join(rows)


def _row(family: names.Family) -> str:
    labels = ", ".join(f"`{label}`" for label in family.labels if label != "model_name")
    meaning = " ".join(family.help.split()).replace("|", "\\|")
    return f"| `{family.name}` | {family.kind.value} | {labels} | {meaning} |\n"


if __name__ == "__main__":
    found = with_table((ROOT / PAGE).read_text())
    if sys.argv[1:] == ["--write"]:
        (ROOT / PAGE).write_text(found)
    else:
        print(found, end="")
