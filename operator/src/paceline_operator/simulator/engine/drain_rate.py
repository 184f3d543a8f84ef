"""How fast a queue drains, measured over the time in which more was there."""

from __future__ import annotations

from collections.abc import Callable
from math import exp, inf

MEMORY_S = 10.0
SAME_STEP_S = 0.01
"""What leaves so soon after another left with it, in no time of its own."""


class DrainRate:
    """Decaying mean of an amount that leaves per second.

    What leaves alone leaves as fast as it came, and tells nothing. Time in which nothing leaves
    although something is there, and nobody works on it, counts.

    Args:
        worked_s: Seconds of work on what is there, ever.
    """

    def __init__(self, worked_s: Callable[[], float] = lambda: 0.0) -> None:
        self._worked_s = worked_s
        self._worked_since = 0.0
        self._there = 0.0
        self._there_since = 0.0
        self._since_s = 0.0
        self._amount = 0.0
        self._seconds = 0.0
        self._is_measured = False
        self._alone_s = -inf

    def came(self, amount: float, now_s: float) -> None:
        """So much has come."""
        if not self._there:
            self._since_s, self._worked_since = now_s, self._worked_s()
        self._there += amount
        if now_s == self._since_s:
            self._there_since = self._there

    def left(self, amount: float, now_s: float) -> None:
        """So much has left because it was served."""
        if amount >= self._there_since:
            self._alone_s = now_s
        elif now_s - self._alone_s >= SAME_STEP_S:
            self._amount, self._seconds = self._sums(self.waited_s(now_s))
            self._amount += amount
            self._is_measured = True
        self._there -= amount
        self._there_since = self._there
        self._since_s, self._worked_since = now_s, self._worked_s()

    def gone(self, amount: float) -> None:
        """So much has gone away unserved: that tells nothing."""
        self._there -= amount
        self._there_since = min(self._there_since, self._there)

    def per_second(self, now_s: float) -> float | None:
        """The rate; None before anything was measured."""
        worked_s = self._worked_s() - self._worked_since
        amount, seconds = self._sums(max(0.0, self.waited_s(now_s) - worked_s))
        return amount / seconds if self._is_measured and seconds > 0 else None

    def waited_s(self, now_s: float) -> float:
        """How long something has been there and nothing has left."""
        return max(0.0, now_s - self._since_s) if self._there else 0.0

    def _sums(self, elapsed_s: float) -> tuple[float, float]:
        kept = exp(-elapsed_s / MEMORY_S)
        return self._amount * kept, self._seconds * kept + elapsed_s
