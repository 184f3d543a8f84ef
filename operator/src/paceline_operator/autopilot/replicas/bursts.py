"""Surges that come and go sooner than a replica starts: known ones are not answered by replicas.

The first surge of a load is answered at once, since nobody knows how long it lasts. Where it is
over before the replicas serve, they came for nothing; so the next one is answered when it has
lasted longer than that. Budget and queue meet what is shorter.
"""

from __future__ import annotations

from dataclasses import replace

from paceline_operator.autopilot.measurement.error_budget import HOUR_S, burn, seen_s
from paceline_operator.autopilot.situation.situation import Situation
from paceline_operator.autopilot.vocabulary.memory import Bursts, Memory

LONGER = 1.25
"""A surge that lasted so many times as long as the known ones is another one."""
REMEMBERED_S = 3600.0
TOLD_S = 1800.0
"""How much of an hour tells whether its misses are used up."""
WAITED_S = 60.0
WAITED_SHARE = 0.75
"""Longest surge that is waited out, in seconds and as a share of the cold start, the larger: what
a longer one loses costs more than replicas that come too late."""


def noted(s: Situation, wanted: int) -> Memory:
    """The memory with the surge that began, goes on, or is over.

    Args:
        s: Now.
        wanted: Replicas that the expected load needs.
    """
    known = s.memory.bursts
    if not known.since_s:
        before = s.fleet.desired_replicas
        if not s.demand.surging or wanted <= before:
            return s.memory
        now = replace(known, began_at_s=s.now_s, since_s=s.now_s, before=before)
        return replace(s.memory, bursts=now)
    lasted_s = s.now_s - known.since_s
    is_over = wanted <= known.before
    if not is_over and lasted_s < s.usual_start_s:
        return s.memory
    if lasted_s >= s.usual_start_s or lasted_s > max(WAITED_S, WAITED_SHARE * s.usual_start_s):
        return replace(s.memory, bursts=replace(known, since_s=0.0, before=0))
    before_s = known.lasted_s if _is_known(known, s.now_s) else 0.0
    over = Bursts(
        began_at_s=known.began_at_s, lasted_s=max(lasted_s, before_s), lasted_at_s=s.now_s
    )
    return replace(s.memory, bursts=over)


def confirmed_at_s(s: Situation) -> float | None:
    """When the surge that is will be none of those known; None where it is none of them."""
    known = s.memory.bursts
    if not known.since_s or not _is_known(known, known.since_s) or _is_spent(s):
        return None
    at_s = known.since_s + LONGER * known.lasted_s
    return at_s if s.now_s < at_s else None


def _is_known(known: Bursts, now_s: float) -> bool:
    return bool(known.lasted_s) and now_s - known.lasted_at_s < REMEMBERED_S


def _is_spent(s: Situation) -> bool:
    """Whether the last hour has used up what may be missed: nothing is left to wait with."""
    return any(
        seen_s(each, s.memory, s.now_s, HOUR_S) >= TOLD_S
        and (burn(each, s.memory, s.now_s, HOUR_S) or 0.0) > 1.0
        for each in (*s.ttft_objectives, *s.e2e_objectives)
    )
