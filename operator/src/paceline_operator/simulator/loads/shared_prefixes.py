"""Requests that begin with one of a few long prompts, until they no longer do."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from paceline_operator.simulator.generator import Generator
from paceline_operator.simulator.loads.arrivals import arrivals, points
from paceline_operator.simulator.loads.lengths import Lengths
from paceline_operator.simulator.loads.popularity import Popularity
from paceline_operator.simulator.loads.rates import Rates
from paceline_operator.simulator.request import PREFIX_BLOCK_TOKENS, Request


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedPrefixes:
    """A prefix, then what is the request's own.

    Attributes:
        rates: Requests per second.
        own: Tokens after the prefix, and of the answer.
        prefixes: How many there are, and how unequally they are used.
        prefix_blocks: Length of each, in blocks of 512 tokens.
        shared_until_s: From then on prompts are as long as before and share nothing: as when a
            template puts the date first.
        dispersion: Of the arrivals, see `arrivals.points`.
    """

    rates: Rates
    own: Lengths
    prefixes: Popularity
    prefix_blocks: int
    shared_until_s: float = math.inf
    dispersion: float = 1.0

    @property
    def duration_s(self) -> float:
        """That of the rates."""
        return self.rates.duration_s

    def requests(self, generator: Generator) -> Iterator[Request]:
        """In order of arrival."""
        times_s = arrivals(self.rates.segments(generator), points(generator, self.dispersion))
        for at_s in times_s:
            first = self.prefixes.draw(generator) * self.prefix_blocks
            own, output = self.own.draw(generator)
            prompt = self.prefix_blocks * PREFIX_BLOCK_TOKENS + own
            shared = at_s < self.shared_until_s
            blocks = tuple(range(first, first + self.prefix_blocks)) if shared else ()
            yield Request(at_s, prompt, output, blocks)
