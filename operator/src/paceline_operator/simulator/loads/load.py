"""What every family of loads offers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from paceline_operator.simulator.generator import Generator
from paceline_operator.simulator.request import Request


class Load(Protocol):
    """A load as its parameters: equal ones with equal chance give equal requests."""

    @property
    def duration_s(self) -> float:
        """Its length; no request arrives later."""

    def requests(self, generator: Generator) -> Iterator[Request]:
        """Its requests, in order of arrival."""
