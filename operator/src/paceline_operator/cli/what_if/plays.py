"""How far the plays of `what-if` have come."""

from __future__ import annotations

import time
from collections.abc import Callable
from math import inf

from paceline_operator.cli.progress import Told

TELL_EVERY_S = 0.25


class Play:
    """One play among several of the same length; tells a few times a second at most.

    Args:
        told: Hears it.
        what: What is played.
        place: How many plays came before.
        plays: How many there are.
        length_s: Of one, in the load's time; what takes longer has come to its end meanwhile.
        clock: In seconds.
    """

    def __init__(
        self,
        told: Told,
        what: str,
        *,
        place: int,
        plays: int,
        length_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._told, self._what = told, what
        self._place, self._plays, self._length_s = place, plays, length_s
        self._clock = clock
        self._told_s = -inf

    def __call__(self, time_s: float) -> None:
        """A time of the load has come."""
        now_s = self._clock()
        if now_s - self._told_s >= TELL_EVERY_S:
            self._told_s = now_s
            done = min(1.0, time_s / self._length_s)
            self._told(self._what, (self._place + done) / self._plays)
