"""Whether the engine still lives, judged by its heartbeat. Pure."""

from __future__ import annotations

from typing import Final

SILENCE_LIMIT_S: Final = 10.0
STEPS_OF_SILENCE: Final = 3.0
MOST_FORESEEN_S: Final = 60.0  # a step is not expected to take longer before one has


def step_allowance_s(
    longest_step_s: float, largest_step_tokens: int, budget: int, first_step_s: float
) -> float:
    """How long the next step may take, judged by those there were.

    Step time grows about with the tokens in it, so while only small steps were seen a full
    one is foreseen from them.

    Args:
        longest_step_s: Longest step so far; 0 before the first.
        largest_step_tokens: Most tokens in one step so far.
        budget: Tokens that a step may have now.
        first_step_s: Allowed at least, and all there is before the first step.
    """
    growth = max(1.0, budget / largest_step_tokens) if largest_step_tokens else 1.0
    foreseen_s = min(longest_step_s * growth, MOST_FORESEEN_S)
    return max(first_step_s, longest_step_s, foreseen_s)


def silence_limit_s(longest_step_s: float, *, busy: bool) -> float:
    """How long the engine may be silent before it counts as dead.

    It reports after every step and every second while idle. A long step is silence too, so
    with work in hand it gets three times the longest step there was.

    Args:
        longest_step_s: Longest step to allow for; see `step_allowance_s`.
        busy: Whether requests are in the engine.
    """
    return max(SILENCE_LIMIT_S, STEPS_OF_SILENCE * longest_step_s) if busy else SILENCE_LIMIT_S
