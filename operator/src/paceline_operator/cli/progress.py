"""How far a long computation has come, on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

LINE_EVERY_S = 10.0

Told = Callable[[str, float], None]
"""Hears what is being done, and which share of the whole is done, 0..1."""


@contextmanager
def shown() -> Iterator[Told]:
    """A bar where one can be drawn; else a line now and then, none for what is soon done."""
    console = Console(stderr=True)
    if not console.is_interactive:
        yield _Lines()
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(),
               TimeRemainingColumn())  # fmt: skip
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("playing", total=1.0)
        yield lambda what, share: bar.update(task, description=what, completed=share)


class _Lines:
    """For logs."""

    def __init__(self) -> None:
        self._told_s = time.monotonic()

    def __call__(self, what: str, share: float) -> None:
        now_s = time.monotonic()
        if now_s - self._told_s >= LINE_EVERY_S:
            self._told_s = now_s
            sys.stderr.write(f"{what}: {100 * share:.0f} % of the whole\n")
            sys.stderr.flush()
