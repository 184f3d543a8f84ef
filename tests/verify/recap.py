"""What the parts of `make unit` ended with, once all have ended: their lines came mixed."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

LAST_LINES: Final = 25
_NAMED = re.compile(r"\w+: (FAILED|ERROR) ")
_SUMMARY = re.compile(r"\w+: =* ?\d+ [a-z]+.* in [\d.]+s")


def recap(lines: Sequence[str]) -> list[str]:
    """What to say again of one part.

    Args:
        lines: All that it wrote, each line with its label.

    Returns:
        Each failed test and the summary; the last lines where it ended in another way.
    """
    written = [line for line in lines if line.strip()]
    ended = bool(written) and bool(_SUMMARY.match(written[-1]))
    last = written[-1:] if ended else written[-LAST_LINES:]
    return [line for line in written if _NAMED.match(line) and line not in last] + last


def main(*logs: str) -> None:
    """Prints the recap of each part whose log is there."""
    print("--- in short")
    for path in map(Path, logs):
        lines = path.read_text(errors="replace").splitlines() if path.exists() else []
        print("\n".join(recap(lines) or [f"{path.stem}: wrote nothing"]))


if __name__ == "__main__":
    main(*sys.argv[1:])
