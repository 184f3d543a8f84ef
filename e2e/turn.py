"""One at a time: waits at a lock file, and says meanwhile who has it.

Standard library only: set-up needs it before anything is installed.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO

REMIND_S = 20.0
_LOOK_S = 0.2
_LONGEST_HOLDER = 500


@contextmanager
def turn(
    path: Path, note: str, say: Callable[[str], None], remind_s: float = REMIND_S
) -> Iterator[None]:
    """Holds the lock file, once whoever has it lets go.

    Args:
        path: The lock file; its folder is there.
        note: What others who wait should know of this process, beside its id and the time.
        say: Told at once and every `remind_s` that it waits, for whom and since when.
        remind_s: Seconds between two reminders.
    """
    # Not "w": who waits must not wipe out what the holder wrote.
    with path.open("a+", encoding="utf-8", errors="replace") as lock:
        _wait(lock, say, remind_s)
        lock.truncate(0)
        lock.write(f"process {os.getpid()}, since {datetime.now():%H:%M:%S}, {note}")  # noqa: DTZ005
        lock.flush()
        try:
            yield
        finally:
            lock.truncate(0)


def _wait(lock: IO[str], say: Callable[[str], None], remind_s: float) -> None:
    started = time.monotonic()
    due = 0.0
    while not _is_taken(lock):
        waited = time.monotonic() - started
        if waited >= due:
            due = waited + remind_s
            say(f"waiting for another to end, for {waited:.0f} s: {_holder(lock)}")
        time.sleep(_LOOK_S)


def _is_taken(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(lock: IO[str]) -> str:
    lock.seek(0)
    return lock.read(_LONGEST_HOLDER).strip() or "a process that did not say which"
