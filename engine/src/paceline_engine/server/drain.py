"""The drain: announced first, then refusing. A state machine over a clock; no I/O."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum


class DrainPhase(StrEnum):
    """How far a drain is."""

    NONE = "none"
    ANNOUNCED = "announced"  # unready, still accepting, answers close their connections
    REFUSING = "refusing"  # new requests get 503, running ones finish


class Drain:
    """State of this server's drain.

    Args:
        clock: Monotonic seconds.
        grace_s: Length of the announced phase, for readiness to spread.

    Attributes:
        terminal: The process is going to exit; cannot be undone.
    """

    def __init__(self, clock: Callable[[], float], grace_s: float) -> None:
        self._clock = clock
        self._grace_s = grace_s
        self._began_at: float | None = None
        self.terminal = False

    @property
    def phase(self) -> DrainPhase:
        """The phase now."""
        if self._began_at is None:
            return DrainPhase.NONE
        elapsed = self._clock() - self._began_at
        return DrainPhase.ANNOUNCED if elapsed < self._grace_s else DrainPhase.REFUSING

    @property
    def active(self) -> bool:
        """Whether a drain is on, in either phase."""
        return self._began_at is not None

    @property
    def grace_left_s(self) -> float:
        """Seconds until requests are refused; 0 where they are, or where no drain is on."""
        if self._began_at is None:
            return 0.0
        return max(0.0, self._began_at + self._grace_s - self._clock())

    def begin(self, *, terminal: bool = False) -> None:
        """Starts the drain; one that is on goes on with its own clock."""
        self.terminal = self.terminal or terminal
        if self._began_at is None:
            self._began_at = self._clock()

    def skip_grace(self) -> None:
        """Refuses from now on; without a drain that is on, nothing changes."""
        if self._began_at is not None:
            self._began_at = min(self._began_at, self._clock() - self._grace_s)

    def undo(self) -> bool:
        """Ends the drain; False where the process is going to exit."""
        if self.terminal:
            return False
        self._began_at = None
        return True
