"""How long a client's connection could take nothing more."""

from __future__ import annotations

import time
from collections.abc import Callable


class Pressure:
    """Follows what the transport says: that too much is unsent, and that there is room again.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._past_s = 0.0
        self._since_s: float | None = None

    @property
    def seconds(self) -> float:
        """In all, so far."""
        return self._past_s + (0.0 if self._since_s is None else self._clock() - self._since_s)

    def begin(self) -> None:
        """Nothing more can be taken; harmless if that is known."""
        if self._since_s is None:
            self._since_s = self._clock()

    def end(self) -> None:
        """There is room; harmless if that is known."""
        self._past_s, self._since_s = self.seconds, None
