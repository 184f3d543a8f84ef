"""Scale-ins that had to be taken back: the same one is not made again at about the same load."""

from __future__ import annotations

from dataclasses import replace

from paceline_operator.autopilot.situation.situation import Situation
from paceline_operator.autopilot.vocabulary.memory import Memory, Regret

TURN_S = 600.0
"""A scale-in that lasted no longer was one too many."""
SAME_LOAD = 1.25
"""Unless so many times the load is expected: then it was the load that changed."""
LESS_LOAD = 1.1
"""So many times less of it, and fewer replicas may do after all."""
REMEMBERED_S = 3600.0


def of_scale_out(s: Situation, after: int) -> Regret | None:
    """What is known when replicas go up to so many.

    No more were needed than there were before: what goes beyond has another cause.
    """
    since_s, before_rps = s.now_s - s.memory.scaled_in_at_s, s.memory.scaled_in_rps
    is_own = s.memory.scaled_in_from > 0
    if not is_own or since_s >= TURN_S or s.demand.forecast_rps > SAME_LOAD * before_rps:
        return s.memory.regret
    return Regret(at_s=s.now_s, replicas=min(after, s.memory.scaled_in_from), rps=before_rps)


def scaled_in(s: Situation, memory: Memory) -> Memory:
    """The memory of a scale-in that is made now."""
    return replace(
        memory,
        scaled_in_at_s=s.now_s,
        scaled_in_from=s.fleet.desired_replicas,
        scaled_in_rps=s.demand.forecast_rps,
    )


def least_replicas(s: Situation) -> int:
    """Replicas below which a scale-in would be one that was taken back; 0 for none."""
    known = s.memory.regret
    if known is None or s.now_s - known.at_s >= REMEMBERED_S:
        return 0
    return known.replicas if LESS_LOAD * s.demand.forecast_rps > known.rps else 0
