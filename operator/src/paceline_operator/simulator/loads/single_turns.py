"""Requests that share nothing with each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from paceline_operator.autopilot.vocabulary.window import INTERACTIVE
from paceline_operator.simulator.generator import Generator
from paceline_operator.simulator.loads.arrivals import arrivals, points
from paceline_operator.simulator.loads.lengths import Lengths
from paceline_operator.simulator.loads.rates import Rates
from paceline_operator.simulator.request import Request


@dataclass(frozen=True, slots=True)
class Stage:
    """Lengths in force from a time on."""

    from_s: float
    lengths: Lengths


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleTurns:
    """One prompt, one answer.

    A second stage with longer prompts brings more tokens without more requests.

    Attributes:
        rates: Requests per second.
        stages: What requests are like, in order of time; the first holds from the beginning.
        dispersion: Of the arrivals, see `arrivals.points`.
        tier: Of all of them.
    """

    rates: Rates
    stages: tuple[Stage, ...]
    dispersion: float = 1.0
    tier: str = INTERACTIVE

    @property
    def duration_s(self) -> float:
        """That of the rates."""
        return self.rates.duration_s

    def requests(self, generator: Generator) -> Iterator[Request]:
        """In order of arrival."""
        later = iter(self.stages[1:])
        stage, following = self.stages[0], next(later, None)
        times_s = arrivals(self.rates.segments(generator), points(generator, self.dispersion))
        for at_s in times_s:
            while following and at_s >= following.from_s:
                stage, following = following, next(later, None)
            prompt, output = stage.lengths.draw(generator)
            yield Request(at_s, prompt, output, (), self.tier)
