"""Whether the engine still lives, judged by its heartbeat. Pure."""

from __future__ import annotations

from typing import Final

SILENCE_LIMIT_S: Final = 10.0
STEPS_OF_SILENCE: Final = 3.0


def silence_limit_s(longest_step_s: float, *, busy: bool) -> float:
    """How long the engine may be silent before it counts as dead.

    It reports after every step and every second while idle. A long step is silence too, so
    with work in hand it gets three times the longest step there was.

    Args:
        longest_step_s: Longest step so far, or an allowance for the first one.
        busy: Whether requests are in the engine.
    """
    return max(SILENCE_LIMIT_S, STEPS_OF_SILENCE * longest_step_s) if busy else SILENCE_LIMIT_S
