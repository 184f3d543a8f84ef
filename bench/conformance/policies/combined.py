"""Several controllers side by side, as people run them: one for the replicas, one for a knob."""

from __future__ import annotations

from collections.abc import Sequence

from paceline_operator.autopilot.vocabulary.fleet import FleetObservation
from paceline_operator.simulator.controller import NOTHING, Controller, Orders


class Combined:
    """Asks each part when that is due.

    Args:
        parts: No two of them may set one knob; where two do, the later one counts.
    """

    def __init__(self, parts: Sequence[Controller]) -> None:
        self._parts = tuple(parts)

    @property
    def next_due_s(self) -> float:
        """When the first part is due."""
        return min(part.next_due_s for part in self._parts)

    def decide(self, fleet: FleetObservation, now_s: float) -> Orders:
        """The orders of all parts that are due."""
        orders = [part.decide(fleet, now_s) for part in self._parts if part.next_due_s <= now_s]
        given = [order for order in orders if order != NOTHING]
        if not given:
            return NOTHING
        replicas = [order.replicas for order in given if order.replicas is not None]
        tunables = [order.tunables for order in given if order.tunables is not None]
        return Orders(
            replicas=replicas[-1] if replicas else None,
            tunables=tunables[-1] if tunables else None,
            reason="+".join(order.reason for order in given),
        )
