"""How fast something drains, measured over the time in which more was there. Pure."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, exp, inf

MEMORY_S = 10.0
SAME_STEP_S = 0.01  # what leaves so soon after another left with it, in no time of its own
LEAST_RETRY_S = 1
MOST_RETRY_S = 60


class DrainRate:
    """Decaying mean of an amount that leaves per second.

    Only time in which something stayed behind tells how fast it can go: what leaves alone
    leaves as fast as it came. Time in which nothing leaves although something is there counts,
    so a rate falls while a queue stands still; what is being worked on does not stand still,
    however long it takes to leave.

    Args:
        memory_s: After so long a measurement has lost most of its weight.
        worked_s: Seconds of work on what is there, ever.
    """

    def __init__(
        self, memory_s: float = MEMORY_S, worked_s: Callable[[], float] = lambda: 0.0
    ) -> None:
        self._memory_s = memory_s
        self._worked_s = worked_s
        self._worked_since = 0.0
        self._there = 0.0
        self._since_s = 0.0  # something last left, or came where nothing was
        self._there_since = 0.0
        self._amount = 0.0
        self._seconds = 0.0
        self._measured = False
        self._alone_s = -inf  # when something last left that had been there alone

    def came(self, amount: float, now_s: float) -> None:
        """So much has come."""
        if not self._there:
            self._since_s, self._worked_since = now_s, self._worked_s()
        self._there += amount
        if now_s == self._since_s:
            self._there_since = self._there

    def left(self, amount: float, now_s: float) -> None:
        """So much has left because it was served."""
        if not amount:
            return
        if amount >= self._there_since:
            self._alone_s = now_s
        elif now_s - self._alone_s >= SAME_STEP_S:
            self._amount, self._seconds = self._sums(self.waited_s(now_s))
            self._amount += amount
            self._measured = True
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
        return amount / seconds if self._measured and seconds > 0 else None

    def waited_s(self, now_s: float) -> float:
        """How long something has been there and nothing has left."""
        return max(0.0, now_s - self._since_s) if self._there else 0.0

    def _sums(self, elapsed_s: float) -> tuple[float, float]:
        kept = exp(-elapsed_s / self._memory_s)
        return self._amount * kept, self._seconds * kept + elapsed_s


def retry_after_s(excess: float, per_second: float | None, waited_s: float = 0.0) -> int:
    """When a refused call would fit, in whole seconds for its `Retry-After`.

    Args:
        excess: What must leave first.
        per_second: How fast it leaves; None where nothing was measured.
        waited_s: How long nothing has left, which is then all that is known: as long again.
    """
    seconds = waited_s
    if per_second is not None:
        seconds = inf if excess >= MOST_RETRY_S * per_second else excess / per_second
    return max(LEAST_RETRY_S, ceil(round(min(seconds, MOST_RETRY_S), 6)))
