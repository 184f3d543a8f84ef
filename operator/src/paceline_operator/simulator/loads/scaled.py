"""A recorded load some times over: copies side by side, thinned where that is no whole number."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import Final

from paceline_operator.simulator.generator import Generator
from paceline_operator.simulator.loads.superpose import Tape, superpose
from paceline_operator.simulator.request import Request

SPREAD_S: Final = 120.0
"""Among how many of its first seconds copies begin: tides stay, bursts do not meet."""


def scaled(tape: Tape, factor: float, generator: Generator) -> Iterator[Request]:
    """So many times the load, one lap long; as it was recorded at 1.

    Args:
        tape: The load.
        factor: Above 0.
        generator: Chance of where copies begin, and of who is left out.
    """
    if factor == 1:
        return tape.play()
    copies = ceil(factor)
    spread = min(1.0, SPREAD_S / tape.span_s) if copies > 1 else 0.0
    requests = superpose(tape, copies, generator, spread=spread)
    return _thinned(requests, factor / copies, generator)


def _thinned(requests: Iterator[Request], share: float, generator: Generator) -> Iterator[Request]:
    return (request for request in requests if share == 1 or generator.random() < share)
