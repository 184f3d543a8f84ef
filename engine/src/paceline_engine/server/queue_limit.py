"""How long a call may have to wait before it is turned away: by a flag, or by the objectives."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from paceline_engine.request import Tier
from paceline_engine.server.admin_wire import SloMetric
from paceline_engine.server.level import BATCH_SHARE
from paceline_engine.server.queue_rule import QueueRule
from paceline_engine.server.slo import SloBoard

QueueLimit = Callable[[Tier, float | None], float | None]
"""Longest expected wait of a call of a tier, in seconds; None for any. The second argument is how
long its prompt takes on an idle engine, in seconds, None where nothing tells."""
TAIL: Final = 90
"""Percentile from which on an objective is about nearly every call."""
_SHARES: Final = {Tier.INTERACTIVE: 1.0, Tier.BATCH: BATCH_SHARE}


def queue_limit(given: float | QueueRule | None, board: SloBoard) -> QueueLimit:
    """What a flag's value means.

    Args:
        given: Seconds, of which the batch tier may have `BATCH_SHARE`; `SLO` for the strictest
            TTFT objective in force of the call's own tier that its prompt alone does not miss,
            those of the tail first, any wait where it has none: who comes later would miss it
            and make others miss it too; None for any wait.
        board: The objectives in force.
    """
    if given is QueueRule.SLO:
        return partial(_allowed_s, board)
    return lambda tier, _: None if given is None else float(given) * _SHARES[tier]


def _allowed_s(board: SloBoard, tier: Tier, prompt_s: float | None) -> float | None:
    """A refused call misses every objective: one that it cannot meet is no reason to refuse it."""
    found = [slo for slo in board.of(tier) if slo.metric is SloMetric.TTFT]
    found.sort(key=lambda slo: (slo.percentile < TAIL, slo.target_ms))
    targets_s = [slo.target_ms / 1e3 for slo in found]
    strictest_s = next(iter(targets_s), None)
    if prompt_s is None:
        return strictest_s
    return next((each for each in targets_s if prompt_s <= each), strictest_s)
