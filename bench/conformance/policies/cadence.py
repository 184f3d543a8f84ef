"""When a controller wants to be asked next."""

from __future__ import annotations

EARLY_S = 0.5
AT_EVERY_SCRAPE = float("-inf")
NEVER = float("inf")


def due_after(now_s: float, every_s: float) -> float:
    """One period from now; a scrape that comes a little early still counts."""
    return now_s + every_s - EARLY_S
