"""One check: what it looks at, and what it found wrong."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass

MAX_DIFF_LINES = 40


@dataclass(frozen=True, slots=True)
class Check:
    """A named check; `run` returns the problems, none where all is well.

    Attributes:
        name: What must hold, in a few words.
        run: Looks, and returns what to print.
        remedy: What to do about a problem.
    """

    name: str
    run: Callable[[], list[str]]
    remedy: str


def difference(name: str, found: str, wanted: str) -> list[str]:
    """Lines that say where `found`, the content of `name`, is not as `wanted`."""
    if found == wanted:
        return []
    lines = list(
        difflib.unified_diff(
            found.splitlines(), wanted.splitlines(), name, f"{name} as generated", lineterm="", n=2
        )
    )
    if not lines:
        return [f"{name}: line ends or the end of the file differ"]
    rest = len(lines) - MAX_DIFF_LINES
    return [*lines[:MAX_DIFF_LINES], *([f"... {rest} more lines"] if rest > 0 else [])]
