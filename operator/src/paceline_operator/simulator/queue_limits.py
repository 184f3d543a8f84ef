"""How long calls may wait where the objectives say it, as the engine's flag `slo` has it."""

from __future__ import annotations

from collections.abc import Iterable

from paceline_operator.api.v1alpha1 import SloMetric, Tier
from paceline_operator.autopilot.measurement.objectives import TAIL
from paceline_operator.autopilot.vocabulary.policy import Objective

QueueLimits = tuple[tuple[float, ...], tuple[float, ...]]
"""Longest expected waits for a first token, of interactive and of batch calls, in seconds: the
first that the prompt alone does not pass holds, else the first; none for any wait."""


def by_objectives(objectives: Iterable[Objective]) -> QueueLimits:
    """TTFT objectives of a call's own tier, those of the tail first; any wait where it has none."""
    given = [each for each in objectives if each.metric is SloMetric.TTFT]
    given.sort(key=lambda each: (each.percentile < TAIL, each.target_ms))
    return _of_tier(given, Tier.INTERACTIVE), _of_tier(given, Tier.BATCH)


def _of_tier(of_ttft: Iterable[Objective], tier: Tier) -> tuple[float, ...]:
    return tuple(each.target_ms / 1e3 for each in of_ttft if each.tier == tier)
