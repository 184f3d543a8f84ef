"""Time as an argument: the engine loop and the simulated device read it from a `Clock`."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """A monotonic clock one can wait on; times in seconds from an arbitrary origin."""

    def now(self) -> float:
        """The present."""
        ...

    def sleep_until(self, deadline_s: float) -> None:
        """Returns at the deadline, at once if it has passed."""
        ...


class MonotonicClock:
    """The machine's clock."""

    def now(self) -> float:
        """See `Clock`."""
        return time.monotonic()

    def sleep_until(self, deadline_s: float) -> None:
        """See `Clock`."""
        remaining = deadline_s - time.monotonic()
        if remaining > 0:
            time.sleep(remaining)
