"""The entry of the control law: one call per tick, pure, replayable."""

from __future__ import annotations

from paceline_operator.autopilot.decision import Tick
from paceline_operator.autopilot.fleet import FleetObservation
from paceline_operator.autopilot.memory import Memory
from paceline_operator.autopilot.policy import Policy


def step(policy: Policy, fleet: FleetObservation, memory: Memory, now_s: float) -> Tick:
    """Runs the loops that are due and explains the outcome."""
    raise NotImplementedError
