"""Notices an engine that has work and does none: requests wait, no step runs any of them.

No request can cause it; it would be a defect of scheduling. Then an end with a reason is
better than a queue that never moves behind a healthy face.
"""

from __future__ import annotations

from typing import Final

STUCK_S: Final = 10.0
PAUSE_S: Final = 0.05  # between two looks at work that cannot start


class EngineStuckError(RuntimeError):
    """Requests have waited for too long while no step ran."""


class Watchdog:
    """Times how long steps have been empty.

    Args:
        limit_s: How long they may be.
    """

    def __init__(self, limit_s: float = STUCK_S) -> None:
        self._limit_s = limit_s
        self._idle_since_s: float | None = None

    def ran(self) -> None:
        """A step ran something, or there is nothing to run."""
        self._idle_since_s = None

    def idled(self, waiting: int, running: int, now_s: float) -> None:
        """A step ran nothing although there is work.

        Raises:
            EngineStuckError: That has been so for too long.
        """
        if self._idle_since_s is None:
            self._idle_since_s = now_s
        idle_s = now_s - self._idle_since_s
        if idle_s >= self._limit_s:
            raise EngineStuckError(
                f"{waiting} requests wait and {running} run, but no step has run any of them "
                f"for {idle_s:.0f} s"
            )
