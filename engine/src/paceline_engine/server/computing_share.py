"""Which share of a queue's time steps compute prompts, and so what their rate is worth. Pure."""

from __future__ import annotations

from math import exp
from typing import Final

MEMORY_S: Final = 10.0
PRIOR_S: Final = 1.0
"""Weight of the first assumption, that a queue is worked on all the time."""


class ComputingShare:
    """Of the time in which prompts wait, the share in which steps compute prompts.

    A queue that is worked on leaves at the rate of such steps, however long its first prompt
    takes; one that waits for a seat does not.
    """

    def __init__(self) -> None:
        self._computing_s = PRIOR_S
        self._waiting_s = PRIOR_S
        self._since_s: float | None = None
        self._is_measured = False

    def computed(self, seconds: float) -> None:
        """A step with a part of a prompt took so long."""
        self._computing_s += seconds
        self._is_measured = True

    def waits(self, now_s: float, *, something: bool) -> None:
        """Whether something waits from now on."""
        self._computing_s, self._waiting_s = self._sums(now_s)
        self._since_s = now_s if something else None

    def at(self, now_s: float) -> float:
        """The share, 0..1; all while no step has run."""
        if not self._is_measured:
            return 1.0
        computing_s, waiting_s = self._sums(now_s)
        return computing_s / waiting_s

    def _sums(self, now_s: float) -> tuple[float, float]:
        elapsed_s = 0.0 if self._since_s is None else max(0.0, now_s - self._since_s)
        kept = exp(-elapsed_s / MEMORY_S)
        waiting_s = self._waiting_s * kept + elapsed_s
        return min(waiting_s, self._computing_s * kept), waiting_s
