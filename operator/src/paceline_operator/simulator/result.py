"""What a simulation brought, and a few figures drawn from it; times from the load's beginning."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from paceline_operator.autopilot.vocabulary.decision import Knob
from paceline_operator.simulator.scoring.outcome import Outcome
from paceline_operator.simulator.scoring.score import Samples, by_time

TEN_MINUTES_S = 600.0
HOLD_S = 60.0
BIN_S = 15.0


@dataclass(frozen=True, slots=True)
class Sample:
    """The fleet at one scrape.

    Attributes:
        time_s: When.
        desired: Replicas wanted.
        existing: Pods that exist, those that start or end included.
        ready: Pods listed as ready.
        budget: Tokens of a step, as agreed.
        running_seqs: Running cap, as agreed.
        ended: Requests that have come to an end so far.
        good: Of those, the ones that met every objective.
    """

    time_s: float
    desired: int
    existing: int
    ready: int
    budget: int
    running_seqs: int
    ended: int
    good: int


@dataclass(frozen=True, slots=True)
class Move:
    """A knob was moved.

    Attributes:
        time_s: When.
        knob: Which one.
        before: Its value until then: replicas, tokens, sequences, or for the step time whole
            microseconds, 0 where engines keep none.
        after: From then on.
        reason: What the control law gave for it.
    """

    time_s: float
    knob: Knob
    before: int
    after: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """All of it.

    Attributes:
        outcomes: Of every request, in the order in which they became known.
        refusals: Refused requests by reason.
        cut: Requests that a scale-in did not let come to their end.
        replica_seconds: Of all pods from their making to their end.
        length_s: Time simulated.
        samples: One for each scrape.
        moves: In order.
        pushes: Pushes of live values, those that failed included.
    """

    outcomes: Sequence[Outcome]
    refusals: Mapping[str, int]
    cut: int
    replica_seconds: float
    length_s: float
    samples: Sequence[Sample]
    moves: Sequence[Move]
    pushes: int = 0

    def of_knob(self, knob: Knob) -> list[Move]:
        """Moves of one knob."""
        return [move for move in self.moves if move.knob is knob]

    def most_reversals(self, knob: Knob, window_s: float = TEN_MINUTES_S) -> int:
        """Most times within a stretch of time that a knob was moved against its move before."""
        turns_s = [
            move.time_s
            for before, move in pairwise(self.of_knob(knob))
            if (move.after > move.before) != (before.after > before.before)
        ]
        return max(
            (
                sum(start_s <= turn_s < start_s + window_s for turn_s in turns_s)
                for start_s in turns_s
            ),
            default=0,
        )

    def overshoot(self, start_s: float, end_s: float) -> float:
        """How far wanted replicas went above where they ended, as a share of that.

        Args:
            start_s: Of the time looked at, a step of the load for instance.
            end_s: Of it, before the load changes again.
        """
        seen = [s.desired for s in self.samples if start_s <= s.time_s < end_s]
        return max(seen) / seen[-1] - 1.0 if seen and seen[-1] else 0.0


def recovery_s(
    outcomes: Iterable[Outcome],
    samples: Samples,
    *,
    step_s: float,
    share: float,
    bin_s: float = BIN_S,
    hold_s: float = HOLD_S,
) -> float | None:
    """From a step of the load until an objective is met again, and for a while.

    Args:
        outcomes: Of the load.
        samples: What is counted.
        step_s: When the load changed.
        share: Share of good samples that is wanted.
        bin_s: Time over which the share is taken.
        hold_s: How long it must be held.

    Returns:
        0 where it was held all the time, None where it never was again.
    """
    after = [o for o in outcomes if o.arrival_s >= step_s]
    held_since_s = step_s
    for score in by_time(after, samples, bin_s, step_s):
        if score.start_s - held_since_s >= hold_s:
            break
        if score.share < share:
            held_since_s = score.start_s + bin_s
    else:
        last_s = max((o.arrival_s for o in after), default=step_s)
        if last_s - held_since_s < hold_s:
            return None if held_since_s > step_s else 0.0
    return held_since_s - step_s
