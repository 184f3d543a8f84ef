"""How well the requests of a load were served: shares of good samples, by time too.

`Samples` says what is counted: `Yardstick.goodput`, or `Yardstick.samples` of an objective.
Requests belong to the time when they were sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import groupby

from paceline_operator.simulator.scoring.outcome import Outcome

Samples = Callable[[Outcome], tuple[int, int]]
"""Good and all samples that a request is."""

WINDOW_S = 300.0
LEAST_SAMPLES = 20
_MINUTE_S = 60.0


@dataclass(frozen=True, slots=True)
class Score:
    """Samples of a stretch of time.

    Attributes:
        start_s: Its beginning.
        good: Good ones.
        total: All.
    """

    start_s: float
    good: int
    total: int

    @property
    def share(self) -> float:
        """Share of good ones; 1 without samples."""
        return self.good / self.total if self.total else 1.0


def overall(outcomes: Iterable[Outcome], samples: Samples) -> Score:
    """Of the whole load."""
    good = total = 0
    for outcome in outcomes:
        more_good, more = samples(outcome)
        good, total = good + more_good, total + more
    return Score(0.0, good, total)


def by_time(
    outcomes: Iterable[Outcome], samples: Samples, bin_s: float = 15.0, begin_s: float = 0.0
) -> list[Score]:
    """Of each bin that holds samples, in order; bins are counted from `begin_s`."""

    def bin_of(outcome: Outcome) -> int:
        return int((outcome.arrival_s - begin_s) // bin_s)

    found = []
    for place, part in groupby(sorted(outcomes, key=bin_of), key=bin_of):
        score = overall(part, samples)
        if score.total:
            found.append(Score(begin_s + place * bin_s, score.good, score.total))
    return found


def worst_window(
    outcomes: Iterable[Outcome],
    samples: Samples,
    length_s: float = WINDOW_S,
    least_samples: int = LEAST_SAMPLES,
) -> Score | None:
    """The stretch of that length in which the share was lowest.

    Each that ends with a request is looked at, unless it begins before the load does: a load
    shorter than that is one stretch.

    Returns:
        None where none holds `least_samples`.
    """
    found = sorted((o.arrival_s, *samples(o)) for o in outcomes)
    worst: Score | None = None
    good = total = first = 0
    for place, (end_s, more_good, more) in enumerate(found):
        good, total = good + more_good, total + more
        while found[first][0] <= end_s - length_s:
            good, total, first = good - found[first][1], total - found[first][2], first + 1
        is_last = place + 1 == len(found)
        is_early = end_s - length_s < found[0][0]
        if not is_last and (is_early or found[place + 1][0] == end_s):
            continue
        seen = Score(end_s - length_s, good, total)
        if total >= least_samples and (worst is None or seen.share < worst.share):
            worst = seen
    return worst


def violation_minutes(outcomes: Iterable[Outcome], samples: Samples, share: float) -> int:
    """Minutes in which fewer than `share` of the samples were good."""
    return sum(score.share < share for score in by_time(outcomes, samples, _MINUTE_S))
