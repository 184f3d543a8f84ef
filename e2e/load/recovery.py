"""How long objectives took to hold again after a change of load."""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from e2e.load.record import Record
from e2e.load.report import Attainment, step_times, ttft_good

WINDOW_S = 15.0
SLIDE_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """At least `share` of the samples of `metric` are within `target_ms`.

    A sample of TTFT lies at the time its request was sent, one of ITL where its gap ended.
    """

    metric: Literal["TTFT", "ITL"]
    target_ms: float
    share: float = 0.95

    def series(self, records: Sequence[Record]) -> Series:
        """The samples of some requests over time."""
        if self.metric == "ITL":
            gaps = ((at, gap <= self.target_ms) for r in records for at, gap in r.gaps_at())
            return Series(gaps, step_times(records))
        judged = ((r.sent_s, ttft_good(r, self.target_ms)) for r in records)
        samples = [(at, good) for at, good in judged if good is not None]
        return Series(samples, sorted(at for at, _ in samples))

    def allows(self, attainment: Attainment) -> bool:
        """Whether samples are consistent with the objective.

        They are where the upper end of the Wilson interval reaches `share`: a window holds
        too few samples for its bare share to stay above 95 % even of a fleet that meets
        the objective. No samples are consistent.
        """
        return attainment.interval[1] >= self.share


class Series:
    """Good and bad samples over time; any window of them costs O(log n)."""

    def __init__(self, samples: Iterable[tuple[float, bool]], independent: Sequence[float]) -> None:
        """Orders samples.

        Args:
            samples: (time, good), in any order.
            independent: Ascending times of independent samples.
        """
        ordered = sorted(samples)
        self._times = [at_s for at_s, _ in ordered]
        self._good = list(itertools.accumulate((good for _, good in ordered), initial=0))
        self._independent = independent

    def window(self, from_s: float, to_s: float) -> Attainment:
        """Attainment in [from_s, to_s)."""
        first, last = bisect_left(self._times, from_s), bisect_left(self._times, to_s)
        n = bisect_left(self._independent, to_s) - bisect_left(self._independent, from_s)
        total = last - first
        return Attainment(good=self._good[last] - self._good[first], total=total, n=min(n, total))


def recovery_s(
    records: Sequence[Record],
    objectives: Sequence[Objective],
    *,
    changed_s: float,
    until_s: float,
    window_s: float = WINDOW_S,
    slide_s: float = SLIDE_S,
) -> float | None:
    """Seconds from a change of load until the objectives hold for good.

    Windows [t, t + window_s) start at t = changed_s, changed_s + slide_s, … and lie within
    [changed_s, until_s]. The fleet has recovered at the first t from which on every window,
    t's own included, is consistent with every objective (`Objective.allows`): a good spell
    between two bad ones is no recovery, and what happened before t does not count.

    Args:
        records: Requests of the run; what lies outside the time is passed over.
        objectives: All must hold.
        changed_s: Unix time of the change.
        until_s: Unix time at which judging ends, such as the next change of load.
        window_s: Length of a window.
        slide_s: From one window's start to the next one's.

    Returns:
        0 where no window ever failed; None where the last one still fails, or where the
        time is shorter than one window.
    """
    if until_s - changed_s < window_s:
        return None
    judged = [(objective, objective.series(records)) for objective in objectives]
    last = int((until_s - changed_s - window_s) / slide_s + 1e-9)
    for index in range(last, -1, -1):
        from_s = changed_s + index * slide_s
        if not all(o.allows(series.window(from_s, from_s + window_s)) for o, series in judged):
            return None if index == last else (index + 1) * slide_s
    return 0.0
