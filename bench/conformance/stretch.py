"""A part of a load, by itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

from bench.conformance.load_case import LoadCase
from paceline_operator.simulator.fleet.faults import PodSpell
from paceline_operator.simulator.generator import Generator
from paceline_operator.simulator.request import Request


@dataclass(frozen=True, slots=True)
class Stretch:
    """A load from one second of it to another."""

    load: str
    from_s: float
    to_s: float

    @classmethod
    def read(cls, text: str) -> Stretch:
        """From `LOAD:FROM-TO`.

        Raises:
            ValueError: It is not of that form.
        """
        load, colon, span = text.partition(":")
        begin, dash, end = span.partition("-")
        if not (colon and dash):
            raise ValueError(f"{text!r} is no stretch of a load; write LOAD:FROM-TO in seconds")
        return cls(load, float(begin), float(end))

    def of(self, case: LoadCase) -> LoadCase:
        """The load, cut to it and beginning at 0, its faults with it."""
        spells = (each for each in case.faults if isinstance(each, PodSpell))
        return replace(
            case,
            play=partial(self._requests, case),
            duration_s=self.to_s - self.from_s,
            steps_up_at_s=tuple(step_s - self.from_s for step_s in case.steps_up_at_s),
            faults=tuple(
                replace(each, start_s=each.start_s - self.from_s, end_s=each.end_s - self.from_s)
                for each in spells
            ),
        )

    def _requests(self, case: LoadCase, generator: Generator) -> Iterator[Request]:
        for each in case.play(generator):
            if each.arrival_s >= self.to_s:
                return
            if each.arrival_s >= self.from_s:
                yield replace(each, arrival_s=each.arrival_s - self.from_s)
