"""What steers a simulated fleet: the autopilot, or a rule that it is compared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from paceline_operator.autopilot.vocabulary.fleet import FleetObservation, Trial, Tunables


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What to change; None leaves a knob as it is.

    Attributes:
        replicas: Replicas wanted.
        tunables: Live knobs of every engine.
        trial: Pod that has another budget meanwhile; only with those.
        reason: Why, in a word.
    """

    replicas: int | None = None
    tunables: Tunables | None = None
    trial: Trial | None = None
    reason: str = ""


NOTHING = Orders()


class Controller(Protocol):
    """A control law with its own state; deterministic."""

    @property
    def next_due_s(self) -> float:
        """When it wants to be asked next; it is asked at the first scrape from then on."""

    def decide(self, fleet: FleetObservation, now_s: float) -> Orders:
        """What it wants, from what is seen of the fleet."""
