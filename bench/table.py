"""From samples to medians, a verdict and a table. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from bench.streams import Burst

LARGEST_OTHERS: Final = 0.10
SMALLEST_RATIO: Final = 1.0


@dataclass(frozen=True, slots=True)
class Sample:
    """One measured burst.

    Attributes:
        name: Contender.
        burst: Times and counts.
        others: Share of the machine that others used meanwhile.
    """

    name: str
    burst: Burst
    others: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """How the comparison ends.

    Attributes:
        word: `ok`, `short` or `void`.
        ratio: Median over rounds of ours to theirs, output tokens/s of one round.
        ours: Median output tokens/s.
        theirs: As `ours`.
        others: Largest share of the machine that others used.
    """

    word: str
    ratio: float
    ours: float
    theirs: float
    others: float

    @property
    def line(self) -> str:
        """The closing line."""
        return (
            f"bench-quick: {self.word} ratio={self.ratio:.2f} paceline={self.ours:.0f} "
            f"transformers={self.theirs:.0f} others={self.others:.2f}"
        )


def judge(samples: Sequence[Sample], ours: str, theirs: str) -> Verdict:
    """Compares round by round: the n-th sample of each side belongs to one round."""
    mine = [s.burst.tokens_per_s for s in samples if s.name == ours]
    other = [s.burst.tokens_per_s for s in samples if s.name == theirs]
    ratio = statistics.median(a / b for a, b in zip(mine, other, strict=True))
    disturbance = max(sample.others for sample in samples)
    word = "ok" if ratio >= SMALLEST_RATIO else "short"
    return Verdict(
        word="void" if disturbance > LARGEST_OTHERS else word,
        ratio=ratio,
        ours=statistics.median(mine),
        theirs=statistics.median(other),
        others=disturbance,
    )


def percentile(values: Sequence[float], percent: int) -> float:
    """Nearest-rank percentile."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


def markdown(
    samples: Sequence[Sample], verdict: Verdict, known: Mapping[str, str], time: datetime
) -> str:
    """The result page: medians over rounds, in brackets the smallest and the largest."""
    names = list(dict.fromkeys(sample.name for sample in samples))
    rows = [_row(name, [s for s in samples if s.name == name]) for name in names]
    lines = [
        f"# Quick comparison, {time:%Y-%m-%d %H:%M} UTC",
        "",
        "| server | output tokens/s | TTFT p50, p95 ms | gap p50, p95 ms | others' CPU |",
        "|---|---|---|---|---|",
        *rows,
        "",
        f"`{verdict.line}`",
        "",
        *(f"- {name}: {value}" for name, value in known.items()),
        "",
    ]
    return "\n".join(lines)


def _row(name: str, samples: Sequence[Sample]) -> str:
    bursts = [sample.burst for sample in samples]
    cells = [
        _spread([burst.tokens_per_s for burst in bursts]),
        ", ".join(_spread([percentile(b.ttft_ms, p) for b in bursts]) for p in (50, 95)),
        ", ".join(_spread([percentile(b.gap_ms, p) for b in bursts]) for p in (50, 95)),
        f"{max(sample.others for sample in samples):.0%}",
    ]
    return f"| {name} | {' | '.join(cells)} |"


def _spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.0f} ({min(values):.0f}-{max(values):.0f})"
