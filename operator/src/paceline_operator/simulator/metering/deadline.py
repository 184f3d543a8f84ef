"""One objective on a moment of each request: its first token, or its end."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from paceline_operator.simulator.metering.sample_counts import SampleCounts
from paceline_operator.simulator.sink import Served


class Deadline:
    """Counts each request exactly once, or never: late ones as soon as they are late.

    Nothing runs when a deadline passes. `expire` counts those that have, all at once, and the
    time when it was last called tells of any request whether it was among them.

    Args:
        samples: Where they are counted.
        is_over: Whether the moment of a request has come, or will not come any more.
    """

    __slots__ = ("_expired_s", "_is_over", "_open", "_samples")

    def __init__(self, samples: SampleCounts, is_over: Callable[[Served], bool]) -> None:
        self._samples = samples
        self._is_over = is_over
        self._open: deque[Served] = deque()
        self._expired_s = float("-inf")

    def begin(self, served: Served) -> None:
        """A request was admitted; they come in the order of time."""
        self._open.append(served)

    def expire(self, now_s: float) -> None:
        """Counts those that have become late since it was last called."""
        waiting, limit_s = self._open, self._samples.limit_s
        while waiting and now_s - waiting[0].received_s > limit_s:
            if not self._is_over(waiting.popleft()):
                self._samples.add(0, 1)
        self._expired_s = now_s

    def is_late(self, served: Served, at_s: float) -> bool:
        """Whether `at_s` is after the request's deadline."""
        return at_s - served.received_s > self._samples.limit_s

    def meet(self, served: Served, at_s: float) -> None:
        """The moment has come."""
        if self.is_late(served, at_s):
            self.fail(served)
        else:
            self._samples.add(1, 0)

    def withdraw(self, served: Served, now_s: float) -> None:
        """It will not come: no sample, unless it is late by now."""
        if self.is_late(served, now_s):
            self.fail(served)

    def fail(self, served: Served) -> None:
        """It is late, or will not come and ought to have."""
        if not self.is_late(served, self._expired_s):
            self._samples.add(0, 1)
