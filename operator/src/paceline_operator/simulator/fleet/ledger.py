"""What became of the requests of a load, each exactly once."""

from __future__ import annotations

from collections.abc import Iterable

from paceline_operator.autopilot.vocabulary.policy import Objective
from paceline_operator.simulator.request import Request
from paceline_operator.simulator.scoring.outcome import COMPLETED, REFUSED, Outcome
from paceline_operator.simulator.scoring.yardstick import Yardstick
from paceline_operator.simulator.sink import Served

UNSERVED = "unserved"
"""Reason of a refusal where no pod took the request."""


class Ledger:
    """The book.

    Args:
        objectives: By which a request is judged.

    Attributes:
        outcomes: In the order in which they became known.
        good: Those that met every objective.
        refusals: Refused requests by reason.
    """

    def __init__(self, objectives: Iterable[Objective]) -> None:
        self._goodput = Yardstick(objectives).goodput
        self.outcomes: list[Outcome] = []
        self.good = 0
        self.refusals: dict[str, int] = {}

    def ended(self, served: Served, outcome: str) -> None:
        """An engine is done with a request."""
        request, sent_s, first_s = served.request, served.received_s, served.first_s
        self._note(
            Outcome(
                request.arrival_s,
                request.tier,
                None if first_s is None else first_s - sent_s,
                served.ended_s - sent_s if outcome == COMPLETED else None,
                served.gaps,
                served.late_gaps,
                outcome,
            )
        )

    def refused(self, request: Request, reason: str) -> None:
        """A request was turned away."""
        self.refusals[reason] = self.refusals.get(reason, 0) + 1
        self._note(Outcome(request.arrival_s, request.tier, outcome=REFUSED))

    def _note(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        self.good += self._goodput(outcome)[0]
