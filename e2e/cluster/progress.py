"""Progress lines: what happens now, and how long it has been going on."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

HEARTBEAT_S = 20.0

Say = Callable[[str, str], None]
"""Takes the name of a step and what is said about it."""


class Progress:
    """Prints one line an event, with the time since it was made."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._lock = threading.Lock()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._started

    def __call__(self, name: str, text: str) -> None:
        """Prints `name  text`."""
        with self._lock:
            print(f"[{self.elapsed_s:6.1f}s] {name:<24} {text}", file=sys.stderr, flush=True)


@contextmanager
def heartbeat(say: Say, name: str, interval_s: float = HEARTBEAT_S) -> Iterator[None]:
    """Says every `interval_s` that `name` still goes on and since when, until the block ends."""
    ended, started = threading.Event(), time.monotonic()

    def beat() -> None:
        while not ended.wait(interval_s):
            say(name, f"still going on, for {time.monotonic() - started:.0f} s")

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
