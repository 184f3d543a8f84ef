"""The logs of earlier set-ups: those that tell something, and not without end."""

from __future__ import annotations

import shutil
from pathlib import Path

KEPT = 10


def tidy(folder: Path, kept: int = KEPT) -> None:
    """Removes what set-ups left there that ran nothing, and all but the last that did.

    Only for who has the turn: nobody else's log is being written then. Folders of other names
    than a process id are not a set-up's.

    Args:
        folder: Holds a folder for each set-up, named by its process id.
        kept: How many stay.
    """
    runs = [each for each in folder.glob("*") if each.name.isdigit() and each.is_dir()]
    told = [run for run in runs if not _is_empty(run)]
    told.sort(key=lambda run: run.stat().st_mtime, reverse=True)
    for run in {*runs} - {*told[:kept]}:
        shutil.rmtree(run, ignore_errors=True)


def _is_empty(run: Path) -> bool:
    return not any(log.stat().st_size for log in run.iterdir())
