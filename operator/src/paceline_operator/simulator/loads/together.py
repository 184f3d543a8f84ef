"""Several loads as one: interactive work and a backlog of batch work, for example."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from paceline_operator.simulator.generator import Generator
from paceline_operator.simulator.loads.load import Load
from paceline_operator.simulator.loads.superpose import in_order, rekeyed
from paceline_operator.simulator.request import Request


@dataclass(frozen=True, slots=True)
class Together:
    """Loads that begin at the same time and share nothing with each other."""

    parts: tuple[Load, ...]

    @property
    def duration_s(self) -> float:
        """That of the longest."""
        return max(part.duration_s for part in self.parts)

    def requests(self, generator: Generator) -> Iterator[Request]:
        """In order of arrival."""
        streams = (part.requests(generator) for part in self.parts)
        return in_order(rekeyed(stream, number) for number, stream in enumerate(streams))
