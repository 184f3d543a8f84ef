"""A scale-in that was decided, and may not go on now."""

from __future__ import annotations

from dataclasses import dataclass, replace

from paceline_operator.api.choice import Mode, Pause
from paceline_operator.api.v1alpha1 import InferenceServiceSpec
from paceline_operator.autopilot.replicas.limits import ordered
from paceline_operator.autopilot.vocabulary import timetable
from paceline_operator.autopilot.vocabulary.decision import Knob
from paceline_operator.autopilot.vocabulary.memory import Memory
from paceline_operator.autopilot.vocabulary.policy import Policy, policy_from_spec
from paceline_operator.reconcile.observed import Observed


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A scale-in that is taken back.

    Attributes:
        wanted: Replicas that it would have left.
        target: Replicas wanted instead.
        why: What lets none leave.
    """

    wanted: int
    target: int
    why: str

    @property
    def message(self) -> str:
        """For the object's events."""
        undone = f"The scale-in to {self.wanted} is taken back"
        return f"{undone}, replicas stay {self.target}: {self.why}"


def held_inwards(
    seen: Observed, spec: InferenceServiceSpec, wanted: int | None, memory: Memory
) -> Held | None:
    """Whether a pause, a freeze window or the installation lets none leave; None where they may.

    A scale-in takes a while: what was decided before is neither begun nor ended within it. What
    is above the maximum still goes, and what users order outside of Auto.

    Args:
        seen: What was gathered.
        spec: What the user asks for, modes capped.
        wanted: Replicas wanted else.
        memory: The autopilot's, after this pass.
    """
    if wanted is None or seen.scale is None or wanted >= seen.scale:
        return None
    policy = policy_from_spec(spec)
    why, target = _why(seen, policy, wanted, memory), seen.scale
    if policy.scaling_mode is Mode.AUTO and policy.max_replicas is not None:
        target = min(target, policy.max_replicas)
    if why is None or target <= wanted:
        return None
    return Held(wanted=wanted, target=target, why=why)


def without_scale_in(memory: Memory) -> Memory:
    """The memory of a fleet whose last scale-in was taken back: nothing follows from that."""
    awaited = tuple(each for each in memory.awaited if each.knob != Knob.REPLICAS.value)
    return replace(memory, scaled_in_from=0, scaled_in_rps=0.0, awaited=awaited)


def _why(seen: Observed, policy: Policy, wanted: int, memory: Memory) -> str | None:
    if policy.scaling_mode is not Mode.AUTO:
        is_asked = memory.capped_since_s is not None and ordered(policy, memory) == wanted
        is_held = seen.braked and not is_asked
        return "the installation allows no moves (maxMode)" if is_held else None
    if policy.pause in (Pause.IN, Pause.ALL):
        return "scaling is paused"
    frozen = timetable.frozen(policy, seen.now_s)
    return None if frozen is None else f"moves are {frozen.text(seen.now_s)}"
