"""A clock for intervals that also tells the time of day."""

from __future__ import annotations

from collections.abc import Callable

SLEW = 0.05
"""Largest correction, in seconds per second that passes."""


class SteadyClock:
    """Seconds since the epoch that never jump: a clock that was set is followed slowly.

    Args:
        steady: Seconds that only ever pass.
        wall: Seconds since the epoch, which may be set.
    """

    def __init__(self, steady: Callable[[], float], wall: Callable[[], float]) -> None:
        self._steady = steady
        self._wall = wall
        self._last_s = steady()
        self._now_s = wall()

    @property
    def error_s(self) -> float:
        """By how much the time of day is ahead of what is told."""
        return self._wall() - self()

    def __call__(self) -> float:
        """The time now."""
        steady_s = self._steady()
        passed_s, self._last_s = max(0.0, steady_s - self._last_s), steady_s
        self._now_s += passed_s
        most_s = SLEW * passed_s
        self._now_s += min(most_s, max(-most_s, self._wall() - self._now_s))
        return self._now_s
