"""The load's beginning once more in front of it: nobody is scored for a fleet that just began."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from paceline_operator.simulator.loads.superpose import rekeyed, until
from paceline_operator.simulator.request import Request

SHORTEST_S: Final = 600.0
COLD_STARTS: Final = 5.0
_SCORED_KEY, _LEAD_KEY = 0, 1


def lead_s(cold_start_s: float, span_s: float) -> float:
    """Length of the lead-in: ten minutes, five cold starts, or the whole of a shorter load."""
    return min(span_s, max(SHORTEST_S, COLD_STARTS * cold_start_s))


def led_in(play: Callable[[], Iterator[Request]], seconds: float) -> Iterator[Request]:
    """The first seconds of a load, then all of it, that much later.

    The two share no prefix blocks: what the lead-in computed is not found by what is scored.

    Args:
        play: Gives the requests from the first, the same each time.
        seconds: Length of the lead-in.
    """
    yield from rekeyed(until(play(), seconds), _LEAD_KEY)
    for request in rekeyed(play(), _SCORED_KEY):
        yield replace(request, arrival_s=request.arrival_s + seconds)
