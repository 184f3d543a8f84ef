"""What is to happen, in order of time."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from math import inf

Action = Callable[[float], None]
"""What happens; is handed the moment."""


class Agenda:
    """Events of one simulation; those of one moment happen in the order they were put down."""

    def __init__(self) -> None:
        self._events: list[tuple[float, int, Action]] = []
        self._put_down = 0

    @property
    def next_s(self) -> float:
        """When something happens next; infinite where nothing is left."""
        return self._events[0][0] if self._events else inf

    def at(self, time_s: float, action: Action) -> None:
        """Puts an event down; one at an infinite time never happens."""
        if time_s < inf:
            self._put_down += 1
            heapq.heappush(self._events, (time_s, self._put_down, action))

    def run_next(self) -> None:
        """Lets the next event happen."""
        time_s, _, action = heapq.heappop(self._events)
        action(time_s)
