"""An event loop whose time jumps to the next timer: hours of a server's life in seconds.

Nothing waits: when no callback is ready, the loop's time is moved to its next deadline. So
everything that runs on it must take its time from `loop.time()`.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

from typing_extensions import override

T = TypeVar("T")
START_S = 1000.0
THREADS_S = 30.0


class _Selector(selectors.DefaultSelector):
    """Polls without waiting, and tells how long it was asked to wait."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = START_S

    @override
    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            # No timer is left: only a thread can wake the loop now.
            ready = super().select(THREADS_S)
            if not ready:
                raise RuntimeError("nothing is left that could wake the loop: a deadlock")
            return ready
        self.now_s += timeout
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """See the module."""

    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    @override
    def time(self) -> float:
        return self._virtual.now_s

    def count_timers(self) -> int:
        """Timers that have not been cancelled."""
        armed = self._scheduled  # type: ignore[attr-defined]  # no public way to count them
        return sum(not timer.cancelled() for timer in armed)


def running_loop() -> VirtualLoop:
    """The virtual loop this runs on.

    Raises:
        TypeError: It runs on another one.
    """
    loop = asyncio.get_running_loop()
    if not isinstance(loop, VirtualLoop):
        raise TypeError("this needs a virtual loop")
    return loop


def run(main: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine on a virtual loop of its own, to its end."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
