"""A scale-in that was decided, and may not go on now."""

from __future__ import annotations

from paceline_operator.api.choice import Mode, Pause
from paceline_operator.api.v1alpha1 import InferenceServiceSpec
from paceline_operator.autopilot import timetable
from paceline_operator.autopilot.policy import policy_from_spec
from paceline_operator.reconcile.observed import Observed


def held_inwards(seen: Observed, spec: InferenceServiceSpec, target: int | None) -> int | None:
    """The replicas wanted, while a pause or a freeze window lets none leave.

    A scale-in takes a while: what was decided before the window is neither begun nor ended
    within it. What is above the maximum still goes; outside of Auto only users order.

    Args:
        seen: What was gathered.
        spec: What the user asks for.
        target: Replicas wanted else.
    """
    if target is None or seen.scale is None or target >= seen.scale:
        return target
    policy = policy_from_spec(spec)
    is_paused = policy.pause in (Pause.IN, Pause.ALL)
    if policy.scaling_mode is not Mode.AUTO:
        return target
    if not (is_paused or timetable.frozen(policy, seen.now_s) is not None):
        return target
    most = seen.scale if policy.max_replicas is None else min(seen.scale, policy.max_replicas)
    return max(target, most)
