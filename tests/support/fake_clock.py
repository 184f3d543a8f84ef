"""A clock that tests move; sleeping moves it too."""

from __future__ import annotations


class FakeClock:
    """See `paceline_engine.clock.Clock`."""

    def __init__(self, start_s: float = 1000.0) -> None:
        self.time_s = start_s
        self.deadlines: list[float] = []

    def now(self) -> float:
        return self.time_s

    def sleep_until(self, deadline_s: float) -> None:
        self.deadlines.append(deadline_s)
        self.time_s = max(self.time_s, deadline_s)
