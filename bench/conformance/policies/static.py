"""Knobs set once: replicas for the peak or for the mean, a budget found by trying them all.

Source: what a Deployment and a start-up flag give; vLLM starts with 2048 tokens, with 8192 on
H100 and H200 (`vllm` PR 12369).
"""

from __future__ import annotations

from bench.conformance.policies.cadence import AT_EVERY_SCRAPE, NEVER
from paceline_operator.autopilot.vocabulary.fleet import FleetObservation, Tunables
from paceline_operator.simulator.controller import NOTHING, Orders

VLLM_BUDGET = 2048
VLLM_BUDGET_H100 = 8192


class Static:
    """Orders its knobs once and is silent from then on.

    Args:
        replicas: None to leave them to others.
        tunables: Alike.
    """

    def __init__(self, replicas: int | None = None, tunables: Tunables | None = None) -> None:
        self._orders = Orders(replicas=replicas, tunables=tunables, reason="Static")
        self._done = False

    @property
    def next_due_s(self) -> float:
        """Once."""
        return NEVER if self._done else AT_EVERY_SCRAPE

    def decide(self, fleet: FleetObservation, now_s: float) -> Orders:
        """The knobs, the first time."""
        if self._done:
            return NOTHING
        self._done = True
        return self._orders
