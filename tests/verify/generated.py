"""Generated files against what their generator writes now."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from tests.verify.check import Check, difference

COPIES = ("crds", "charts/paceline/crds")
REMEDY = "make crds"


def checks(root: Path) -> list[Check]:
    """The definition in each place it is kept."""
    return [
        Check(f"{place} is what the models say", partial(stale, root, place), REMEDY)
        for place in COPIES
    ]


def stale(root: Path, place: str) -> list[str]:
    """Differences between a directory and a fresh one."""
    with tempfile.TemporaryDirectory(prefix="paceline-verify-") as fresh:
        command = [sys.executable, "-m", "paceline_operator.api.crd", "--write", fresh]
        subprocess.run(command, check=True)
        wanted = contents(Path(fresh))
    found = contents(root / place)
    return [
        line
        for name in sorted(wanted | found)
        for line in _compare(f"{place}/{name}", found.get(name), wanted.get(name))
    ]


def contents(directory: Path) -> dict[str, str]:
    """Text of each file, by name."""
    return {path.name: path.read_text() for path in directory.glob("*") if path.is_file()}


def _compare(name: str, found: str | None, wanted: str | None) -> list[str]:
    if found is None:
        return [f"{name} is missing"]
    if wanted is None:
        return [f"{name} is not generated: remove it"]
    return difference(name, found, wanted)
