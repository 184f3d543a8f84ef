"""A load made again from what was counted of it: rates, lengths and prefix hits over time.

Single requests were not recorded. Arrivals are a Poisson process at the measured rate of each
stretch; lengths are drawn from its histograms, stretched so that their mean is the measured one;
prompts begin with as much of one shared text as the prefix cache found. So bursts within a
stretch, the link between a request's prompt and its answer, and who shares what with whom are
lost.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf

from paceline_operator.autopilot.vocabulary.window import INTERACTIVE, Histogram
from paceline_operator.simulator.generator import Generator
from paceline_operator.simulator.loads.arrivals import arrivals, points
from paceline_operator.simulator.loads.rates import Segment
from paceline_operator.simulator.loads.superpose import in_order
from paceline_operator.simulator.request import PREFIX_BLOCK_TOKENS, Request

OPEN_BUCKET = 2.0
"""Upper end of a histogram's open last bucket, in multiples of its lower edge."""


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Where the tokens of prompts or answers come from.

    Attributes:
        histogram: Of tokens.
        mean: Tokens, as counted exactly; 0 for that of the histogram's own sum.
    """

    histogram: Histogram
    mean: float = 0.0

    @cached_property
    def _bounds(self) -> tuple[tuple[float, float], ...]:
        """Lowest and highest whole number of each bucket."""
        found, lower = [], 0.0
        for edge in self.histogram.edges:
            upper = edge if edge < inf else max(1.0, OPEN_BUCKET * lower)
            found.append((lower + 1.0, max(lower + 1.0, upper)))
            lower = edge
        return tuple(found)

    @cached_property
    def _cumulative(self) -> list[float]:
        return list(itertools.accumulate(self.histogram.counts))

    @cached_property
    def _stretch(self) -> float:
        """Makes the mean of what is drawn the measured one."""
        middles = ((low + high) / 2 for low, high in self._bounds)
        pairs = zip(middles, self.histogram.counts, strict=True)
        drawn = sum(middle * count for middle, count in pairs) / self.histogram.samples
        wanted = self.mean or self.histogram.mean
        return wanted / drawn if wanted else 1.0

    def draw(self, generator: Generator) -> int:
        """Tokens, 1 at least; uniform inside a bucket."""
        ranks = self._cumulative
        place = bisect_left(ranks, generator.random() * ranks[-1])
        low, high = self._bounds[min(place, len(ranks) - 1)]
        return max(1, round(self._stretch * (low + (high - low) * generator.random())))


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A stretch of time of one tier.

    Attributes:
        duration_s: Its length.
        rps: Requests received per second.
        prompts: Tokens of prompts.
        outputs: Tokens of answers.
        hit_share: Share of prompt tokens that the prefix cache found, 0..1.
    """

    duration_s: float
    rps: float
    prompts: Sizes
    outputs: Sizes
    hit_share: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconstruction:
    """A measured load.

    Attributes:
        tiers: Stretches of each tier, in order of time, all of the same length together.
    """

    tiers: dict[str, Sequence[Measured]] = field(default_factory=dict)

    @property
    def duration_s(self) -> float:
        """Its length."""
        return max(sum(part.duration_s for part in parts) for parts in self.tiers.values())

    def requests(self, generator: Generator) -> Iterator[Request]:
        """In order of arrival."""
        return in_order(
            [_tier(parts, tier, generator) for tier, parts in sorted(self.tiers.items())]
        )


def _tier(parts: Sequence[Measured], tier: str, generator: Generator) -> Iterator[Request]:
    segments = (Segment(part.duration_s, part.rps, part.rps) for part in parts)
    ends_s = list(itertools.accumulate(part.duration_s for part in parts))
    for at_s in arrivals(segments, points(generator)):
        part = parts[min(bisect_left(ends_s, at_s), len(parts) - 1)]
        prompt = part.prompts.draw(generator)
        yield Request(
            at_s,
            prompt,
            part.outputs.draw(generator),
            _prefix(prompt, part.hit_share, tier, generator),
            tier,
        )


def _prefix(prompt: int, share: float, tier: str, generator: Generator) -> tuple[int, ...]:
    """Blocks of the shared text, so many that on average the share is found.

    Whole blocks of 512 tokens are shared or not, so the rest is left to chance.
    """
    wanted = share * prompt / PREFIX_BLOCK_TOKENS
    blocks = int(wanted)
    blocks += generator.random() < _chance_of_one_more(prompt, blocks, wanted)
    most = -(-prompt // PREFIX_BLOCK_TOKENS)
    first = 0 if tier == INTERACTIVE else 1 << 40
    return tuple(range(first, first + min(blocks, most)))


def _chance_of_one_more(prompt: int, blocks: int, wanted: float) -> float:
    """The last block of a prompt may be shorter than 512 tokens: it is shared more often then."""
    left = prompt / PREFIX_BLOCK_TOKENS - blocks
    return (wanted - blocks) / min(1.0, left) if left > 0 else 0.0
