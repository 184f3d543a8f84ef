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

QueueLimit = Callable[[Tier], float | None]
"""Longest expected wait of a call of a tier, in seconds; None for any."""
_SHARES: Final = {Tier.INTERACTIVE: 1.0, Tier.BATCH: BATCH_SHARE}


def queue_limit(given: float | QueueRule | None, board: SloBoard) -> QueueLimit:
    """What a flag's value means.

    Args:
        given: Seconds, of which the batch tier may have `BATCH_SHARE`; `SLO` for the strictest
            TTFT objective in force of the call's own tier, any wait where it has none: who comes
            later would miss it and make others miss it too; None for any wait.
        board: The objectives in force.
    """
    if given is QueueRule.SLO:
        return partial(_strictest_s, board)
    return lambda tier: None if given is None else float(given) * _SHARES[tier]


def _strictest_s(board: SloBoard, tier: Tier) -> float | None:
    found = (slo.target_ms for slo in board.of(tier) if slo.metric is SloMetric.TTFT)
    target_ms = min(found, default=None)
    return None if target_ms is None else target_ms / 1e3
