"""Tokens of prompts and answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from paceline_operator.simulator.generator import Generator


class Lengths(Protocol):
    """Where the tokens of a request come from."""

    def draw(self, generator: Generator) -> tuple[int, int]:
        """Prompt and output tokens, 1 at least each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogNormal:
    """A log-normal number of tokens, rounded and cut.

    Attributes:
        mean: Tokens, before the cut.
        sigma: Standard deviation of the logarithm: 0.5 has its 95th percentile at 2 x the
            mean, 1.2 at 3.5 x.
        most: Cut above.
        least: Cut below.
    """

    mean: float
    sigma: float
    most: int
    least: int = 1

    def draw(self, generator: Generator) -> int:
        """One number."""
        mu = math.log(self.mean) - self.sigma**2 / 2
        return min(self.most, max(self.least, round(generator.lognormvariate(mu, self.sigma))))


@dataclass(frozen=True, slots=True, kw_only=True)
class LogNormalLengths:
    """Prompt and answer, independent of each other."""

    prompt: LogNormal
    output: LogNormal

    def draw(self, generator: Generator) -> tuple[int, int]:
        """The prompt first."""
        return self.prompt.draw(generator), self.output.draw(generator)


@dataclass(frozen=True, slots=True)
class ResampledLengths:
    """Pairs of prompt and output tokens that were seen, drawn with replacement."""

    pairs: Sequence[tuple[int, int]]

    def draw(self, generator: Generator) -> tuple[int, int]:
        """A pair as it was seen."""
        return self.pairs[generator.randrange(len(self.pairs))]
