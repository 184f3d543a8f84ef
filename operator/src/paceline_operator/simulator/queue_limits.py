"""How long calls may wait where the objectives say it, as the engine's flag `slo` has it."""

from __future__ import annotations

from collections.abc import Iterable

from paceline_operator.api.v1alpha1 import SloMetric, Tier
from paceline_operator.autopilot.policy import Objective

QueueLimits = tuple[float | None, float | None]
"""Longest expected wait for a first token, of interactive and of batch calls, in seconds; None
for any."""


def by_objectives(objectives: Iterable[Objective]) -> QueueLimits:
    """The strictest TTFT objective of a call's own tier; any wait where it has none."""
    given = [each for each in objectives if each.metric is SloMetric.TTFT]
    return _strictest_s(given, Tier.INTERACTIVE), _strictest_s(given, Tier.BATCH)


def _strictest_s(of_ttft: Iterable[Objective], tier: Tier) -> float | None:
    found = min((each.target_ms for each in of_ttft if each.tier == tier), default=None)
    return None if found is None else found / 1e3
