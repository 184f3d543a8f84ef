"""How fast something drains, measured over the time in which there was any. Pure."""

from __future__ import annotations

from math import ceil, exp

MEMORY_S = 10.0
LEAST_RETRY_S = 1
MOST_RETRY_S = 60


class DrainRate:
    """Decaying mean of an amount that leaves per second.

    Time in which nothing is there to leave does not count; time in which nothing leaves although
    something is there does, so a rate falls while a queue stands still.

    Args:
        memory_s: After so long a measurement has lost most of its weight.
    """

    def __init__(self, memory_s: float = MEMORY_S) -> None:
        self._memory_s = memory_s
        self._since_s: float | None = None
        self._amount = 0.0
        self._seconds = 0.0

    def resume(self, now_s: float) -> None:
        """Something is there from now on; harmless where something was."""
        if self._since_s is None:
            self._since_s = now_s

    def pause(self, now_s: float) -> None:
        """Nothing is there any more."""
        self._amount, self._seconds = self._sums(now_s)
        self._since_s = None

    def left(self, amount: float, now_s: float) -> None:
        """So much has left."""
        self._amount, self._seconds = self._sums(now_s)
        self._amount += amount
        if self._since_s is not None:
            self._since_s = now_s

    def per_second(self, now_s: float) -> float | None:
        """The rate; None before anything has left."""
        amount, seconds = self._sums(now_s)
        return amount / seconds if amount > 0 and seconds > 0 else None

    def _sums(self, now_s: float) -> tuple[float, float]:
        elapsed_s = 0.0 if self._since_s is None else max(0.0, now_s - self._since_s)
        kept = exp(-elapsed_s / self._memory_s)
        return self._amount * kept, self._seconds * kept + elapsed_s


def retry_after_s(excess: float, per_second: float | None) -> int:
    """When a refused call would fit, in whole seconds for its `Retry-After`.

    Args:
        excess: What must leave first.
        per_second: How fast it leaves; None where nothing is known, and then the least is said.
    """
    if per_second is None:
        return LEAST_RETRY_S
    if excess >= MOST_RETRY_S * per_second:
        return MOST_RETRY_S
    return max(LEAST_RETRY_S, ceil(round(excess / per_second, 6)))
