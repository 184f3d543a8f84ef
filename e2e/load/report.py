"""Attainment of latency objectives, from records alone.

A sample of TTFT is a request, of ITL a gap between two texts of one answer. The share of
good samples comes with a two-sided 90 % Wilson score interval (E. B. Wilson, "Probable
inference, the law of succession, and statistical inference", JASA 22, 1927).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from e2e.load.record import Outcome, Record

# Standard normal quantile of 0.95: each side of a two-sided 90 % interval leaves 5 %.
Z_90 = 1.6448536269514722
# Texts of several answers that came within this time are taken for one engine step.
SAME_STEP_S = 0.002


@dataclass(frozen=True, slots=True, kw_only=True)
class Attainment:
    """How much of what was measured met a target.

    Attributes:
        good: Samples within the target.
        total: Samples.
        n: Independent ones among them, from which the interval is made: for ITL the engine
            steps, as gaps that end in one step are copies of each other.
    """

    good: int
    total: int
    n: int

    @property
    def share(self) -> float:
        """Good over all, 0 where nothing was measured."""
        return self.good / self.total if self.total else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """Lower and upper end of the 90 % Wilson interval."""
        return wilson(self.share, self.n)


def wilson(share: float, n: int, z: float = Z_90) -> tuple[float, float]:
    """Wilson score interval of a share seen in `n` samples, (0, 1) for none."""
    if n <= 0:
        return 0.0, 1.0
    spread = z * z / n
    centre = (share + spread / 2) / (1 + spread)
    half = z * math.sqrt(share * (1 - share) / n + spread / (4 * n)) / (1 + spread)
    return max(0.0, centre - half), min(1.0, centre + half)


def ttft_attainment(records: Iterable[Record], target_ms: float) -> Attainment:
    """TTFT of streamed requests, n = requests.

    Refused and lost requests without a first token are bad. A request cancelled with the
    generator counts only if it was late already.
    """
    verdicts = [v for v in (ttft_good(r, target_ms) for r in records) if v is not None]
    return Attainment(good=sum(verdicts), total=len(verdicts), n=len(verdicts))


def ttft_good(record: Record, target_ms: float) -> bool | None:
    """Whether a request met its TTFT target, None where it is no sample."""
    if not record.streamed and record.outcome is Outcome.OK:
        return None
    if record.ttft_ms is not None:
        return record.ttft_ms <= target_ms
    waited_ms = (record.ended_s - record.sent_s) * 1e3
    if record.outcome is Outcome.CANCELLED and waited_ms <= target_ms:
        return None
    return False


def itl_attainment(
    records: Iterable[Record], target_ms: float, steps: int | None = None
) -> Attainment:
    """ITL over all gaps of all requests.

    Args:
        records: Requests.
        target_ms: Objective.
        steps: Engine steps that emitted tokens, if the engines' metrics tell; otherwise
            `step_times` estimates them from below.
    """
    kept = list(records)
    gaps = [gap for record in kept for gap in record.gaps_ms]
    n = len(step_times(kept)) if steps is None else steps
    return itl_of(gaps, target_ms, n)


def itl_of(gaps_ms: Sequence[float], target_ms: float, steps: int) -> Attainment:
    """ITL over given gaps; never more independent samples than gaps."""
    good = sum(gap <= target_ms for gap in gaps_ms)
    return Attainment(good=good, total=len(gaps_ms), n=min(steps, len(gaps_ms)))


def between(records: Iterable[Record], from_s: float, to_s: float) -> list[Record]:
    """Requests sent in [from_s, to_s), Unix seconds."""
    return [record for record in records if from_s <= record.sent_s < to_s]


def gaps_between(records: Iterable[Record], from_s: float, to_s: float) -> list[float]:
    """Gaps in milliseconds that ended in [from_s, to_s), whenever their request was sent."""
    return [gap for r in records for at_s, gap in r.gaps_at() if from_s <= at_s < to_s]


def step_times(records: Iterable[Record]) -> list[float]:
    """Unix times of the engine steps that emitted text, as far as a client can tell.

    Texts closer together than `SAME_STEP_S` count once, so with several engines there are
    too few rather than too many, and the intervals made from them are too wide.
    """
    steps: list[float] = []
    last = -math.inf
    for at in sorted(at for record in records for at in record.texts_at()):
        if at - last > SAME_STEP_S:
            steps.append(at)
            last = at
    return steps


def lost(records: Iterable[Record]) -> list[Record]:
    """Requests that got anything but a full reply or a deliberate 429."""
    return [record for record in records if record.outcome is Outcome.LOST]


def percentile(values: Sequence[float], percent: float) -> float | None:
    """Nearest-rank percentile: the smallest value with `percent` % of all at or below it."""
    if not values:
        return None
    rank = math.ceil(percent / 100 * len(values))
    return sorted(values)[max(0, rank - 1)]
