"""Whether the engine still lives, judged by its heartbeat. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

BEAT_S: Final = 1.0  # between two reports of an engine without work
FIRST_STEP_S: Final = 10.0  # a first full prefill on a slow CPU
UNREADY_S: Final = 4.0  # silence beyond what is expected after which others should be asked
DEAD_S: Final = 10.0
STEPS_OF_SILENCE: Final = 3.0
MOST_FORESEEN_S: Final = 10.0  # three such steps are 30 s of silence; a longer one must be proven
PROVEN_MARGIN: Final = 1.5
MOST_SILENCE_S: Final = 120.0
PROVING_SHARE: Final = 0.25  # of the budget: smaller steps tell too little of a full one
MEMORY_S: Final = 300.0  # a step is remembered for as long at least, and twice as long at most


@dataclass(slots=True)
class _Extremes:
    """Of the steps of some minutes."""

    began_s: float
    longest_s: float = 0.0
    largest: tuple[int, float] = (0, 0.0)  # most tokens, and how long they took

    def add(self, duration_s: float, tokens: int) -> None:
        self.longest_s = max(self.longest_s, duration_s)
        self.largest = max(self.largest, (tokens, duration_s))


class RecentSteps:
    """Extremes of the steps of the last minutes.

    One slow step, or one that was stopped, is forgotten in time.
    """

    def __init__(self) -> None:
        self._spans: list[_Extremes] = []

    def add(self, duration_s: float, tokens: int, now_s: float) -> None:
        """A step of so many tokens was executed."""
        if not self._spans or now_s - self._spans[-1].began_s >= MEMORY_S:
            self._spans = [*self._spans[-1:], _Extremes(now_s)]
        self._spans[-1].add(duration_s, tokens)

    @property
    def longest_s(self) -> float:
        """Longest of them; 0 where there was none."""
        return max((span.longest_s for span in self._spans), default=0.0)

    def expected_s(self, budget: int, first_step_s: float) -> float:
        """How long the next step may take, by these.

        A step of many tokens tells how long a full one takes: no longer than in proportion.
        Small ones do not, since what differs between them is chance as much as work.

        Args:
            budget: Tokens that a step may have now.
            first_step_s: Expected at least while no step has been large enough to tell.
        """
        tokens, largest_s = max((span.largest for span in self._spans), default=(0, 0.0))
        if tokens < PROVING_SHARE * budget:
            return max(first_step_s, self.longest_s)
        full_s = largest_s * budget / tokens
        return max(self.longest_s, min(full_s, MOST_FORESEEN_S))


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """How long an engine may be silent.

    Attributes:
        unready_s: Then routers should ask another one.
        dead_s: Then it should be started anew.
    """

    unready_s: float
    dead_s: float


def silence(steps: RecentSteps, budget: int, first_step_s: float, *, busy: bool) -> Silence:
    """How long the engine may be silent now.

    It reports after every step and every second while idle, so with work in hand a long step
    is silence too: it gets three times the step that is expected, up to 30 s, and beyond that
    half as much again as the longest step there was of late. Restarting it takes a probe that
    fails several times in a row, which leaves yet more to a step that nothing foretold.

    Args:
        steps: Those of late.
        budget: Tokens that a step may have now.
        first_step_s: See `RecentSteps.expected_s`.
        busy: Whether requests are in the engine, or on their way to it.
    """
    if not busy:
        return Silence(unready_s=BEAT_S + UNREADY_S, dead_s=DEAD_S)
    expected_s = max(BEAT_S, steps.expected_s(budget, first_step_s))
    foreseen_s = STEPS_OF_SILENCE * min(expected_s, MOST_FORESEEN_S)
    proven_s = min(PROVEN_MARGIN * steps.longest_s, MOST_SILENCE_S)
    dead_s = max(DEAD_S, foreseen_s, proven_s)
    return Silence(unready_s=min(expected_s + UNREADY_S, dead_s), dead_s=dead_s)
