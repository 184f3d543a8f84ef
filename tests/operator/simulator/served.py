"""Requests on their way, moved by hand."""

from __future__ import annotations

from itertools import count

from paceline_operator.autopilot.vocabulary.window import INTERACTIVE
from paceline_operator.simulator.request import Request
from paceline_operator.simulator.sink import Served

_ids = count()


def waiting(received_s: float, tier: str = INTERACTIVE, prompt_tokens: int = 100) -> Served:
    """Admitted at a time."""
    request = Request(received_s, prompt_tokens, 3, tier=tier)
    return Served(request, next(_ids), received_s)


def begun(served: Served, first_s: float) -> Served:
    """It has its first token."""
    served.started_s, served.first_s, served.last_s = served.received_s, first_s, first_s
    return served


def over(served: Served, ended_s: float, late: int = 0, gaps: int = 2) -> Served:
    """It has ended; `late` of its gaps missed each target."""
    served.ended_s = ended_s
    served.gaps, served.tokens = gaps, gaps + 1
    served.late_gaps = (late,)
    if served.first_s is not None:
        served.last_s = ended_s
    return served
