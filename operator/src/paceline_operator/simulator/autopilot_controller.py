"""The product's control law as what steers a simulated fleet: its code, unchanged."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from math import inf

from paceline_operator.autopilot import pilot
from paceline_operator.autopilot.pilot import EARLY_S
from paceline_operator.autopilot.vocabulary.decision import Decision, SetReplicas, SetTunables, Tick
from paceline_operator.autopilot.vocabulary.fleet import FleetObservation
from paceline_operator.autopilot.vocabulary.memory import Memory, dump_memory, load_memory
from paceline_operator.autopilot.vocabulary.policy import Policy
from paceline_operator.simulator.controller import Orders


class AutopilotController:
    """Asked when a loop is due; the operator asks more often, and hears nothing in between.

    Args:
        policy: Objectives, autonomy and limits.
        kept_decisions: Most decisions to keep, the newest ones.

    Attributes:
        memory: What it must not forget.
        decisions: Newest last.
        last_tick: What it said last, None before.
    """

    def __init__(self, policy: Policy, *, kept_decisions: int = 0) -> None:
        self._policy = policy
        self.memory = Memory()
        self.decisions: deque[Decision] = deque(maxlen=kept_decisions)
        self.last_tick: Tick | None = None

    @property
    def next_due_s(self) -> float:
        """When one of its loops may be due first, as the law says: nothing is heard later here."""
        return -inf if self.last_tick is None else self.last_tick.next_due_s - EARLY_S

    def decide(self, fleet: FleetObservation, now_s: float) -> Orders:
        """What it wants, from what is seen of the fleet."""
        tick = pilot.step(self._policy, fleet, self.memory, now_s)
        self.memory, self.last_tick = tick.memory, tick
        self.decisions.extend(tick.decisions)
        return _orders(tick)

    def disturbed(self, now_s: float) -> None:
        """Somebody else wrote replicas: cool-downs begin as after a move of its own."""
        self.memory = replace(
            self.memory, scaled_in_at_s=now_s, scaled_in_from=0, scaled_out_at_s=now_s
        )

    def restarted(self) -> None:
        """Another process goes on, from what the status keeps."""
        self.memory, self.last_tick = load_memory(dump_memory(self.memory)), None


def _orders(tick: Tick) -> Orders:
    replicas, tunables, trial = None, None, None
    for action in tick.actions:
        match action:
            case SetReplicas():
                replicas = action.replicas
            case SetTunables():
                tunables, trial = action.tunables, action.trial
    reasons = [each.reason.value for each in tick.decisions if each.applied]
    said = ", ".join(reasons)
    return Orders(replicas=replicas, tunables=tunables, trial=trial, reason=said)
