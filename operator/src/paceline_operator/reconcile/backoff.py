"""How long a try that fails again and again is waited with: twice as long each time."""

from __future__ import annotations

_MOST_DOUBLINGS = 16
"""No wait needs more; a number raised to what a service has failed in weeks is none any more."""


def backoff_s(failures: int, first_s: float, most_s: float) -> float:
    """Seconds before the next try.

    Args:
        failures: How often it has failed in a row, one at least.
        first_s: Wait after the first failure.
        most_s: Longest wait.
    """
    return min(most_s, first_s * 2.0 ** min(failures - 1, _MOST_DOUBLINGS))
