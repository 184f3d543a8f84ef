"""Limits of the replica knob: of the spec, of a manual floor, and what they do at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite

from paceline_operator.api.v1alpha1 import FreezeScope, Mode, Pause
from paceline_operator.autopilot.replicas import pending, unseen
from paceline_operator.autopilot.situation.situation import REPLICA_EVERY_S, Situation
from paceline_operator.autopilot.vocabulary import phrases, timetable
from paceline_operator.autopilot.vocabulary.decision import Knob, Reason, ScalingLimit
from paceline_operator.autopilot.vocabulary.memory import Memory
from paceline_operator.autopilot.vocabulary.move import Move
from paceline_operator.autopilot.vocabulary.policy import Policy
from paceline_operator.autopilot.vocabulary.timetable import Floor


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Where replicas may be.

    Attributes:
        lower: Fewest.
        upper: Most, None for none.
        manual_floor: `spec.replicas` while it counts as a floor, else None.
        expires_s: When that ends.
        scheduled: The schedule that raises the minimum, None where none does.
    """

    lower: int
    upper: int | None
    manual_floor: int | None = None
    expires_s: float | None = None
    scheduled: Floor | None = None

    def recorded(self, replicas: int) -> int:
        """A recommendation as the down window remembers it.

        A minimum is no demand: it must not outlast its end.
        """
        return replicas if self.upper is None else min(replicas, self.upper)

    def clamp(self, replicas: int) -> int:
        """The nearest value inside."""
        raised = max(replicas, self.lower)
        return raised if self.upper is None else min(raised, self.upper)


def noted(policy: Policy, memory: Memory, now_s: float) -> Memory:
    """Remembers since when `spec.replicas` is what it is, and since when the brake is on.

    What was never seen before may have stood there for long: under the brake it is no order.
    """
    if policy.is_braked is (memory.capped_since_s is None):
        memory = replace(memory, capped_since_s=now_s if policy.is_braked else None)
    if policy.replicas == memory.manual_replicas:
        return memory
    since_s = 0.0 if policy.is_braked and memory.manual_replicas is None else now_s
    return replace(memory, manual_replicas=policy.replicas, manual_since_s=since_s)


def ordered(policy: Policy, memory: Memory) -> int | None:
    """`spec.replicas` where it counts as an order, outside of Auto.

    Where the installation has taken the knob from the autopilot, replicas stay what that made
    them: a value of before is none that anybody has asked for since.
    """
    since_s = memory.capped_since_s
    is_new = since_s is None or memory.manual_since_s >= since_s
    return policy.replicas if is_new else None


def limits(s: Situation) -> Limits:
    """Limits in force; without a gateway nothing would wake a fleet of none."""
    found, scheduled = _asked(s), timetable.floor(s.policy, s.now_s, ahead_s(s))
    if scheduled is None or scheduled.replicas <= found.lower:
        return found
    least = scheduled.replicas if found.upper is None else min(scheduled.replicas, found.upper)
    return replace(found, lower=max(found.lower, least), scheduled=scheduled)


def ahead_s(s: Situation) -> float:
    """How long before a schedule begins its replicas are ordered.

    The loop may look up to one period late, and the order takes a while to become pods.
    """
    return s.cold_start_s + 2 * REPLICA_EVERY_S


def _asked(s: Situation) -> Limits:
    """What the spec asks for at any time of the day."""
    policy = s.policy
    lower, upper = max(1, policy.min_replicas), policy.max_replicas
    expires_s = s.memory.manual_since_s + policy.override_s
    if policy.scaling_mode is not Mode.AUTO or policy.replicas is None or s.now_s >= expires_s:
        return Limits(lower=lower, upper=upper)
    floor = policy.replicas if upper is None else min(policy.replicas, upper)
    if floor <= lower:
        # The stored default of 1, or a value that the minimum covers anyway: no floor to tell.
        return Limits(lower=lower, upper=upper)
    return Limits(lower=floor, upper=upper, manual_floor=floor, expires_s=expires_s)


def forced(s: Situation, found: Limits) -> Move | None:
    """What user and limits ask for whatever is measured, None for nothing."""
    now, policy = s.fleet.desired_replicas, s.policy
    if policy.scaling_mode is not Mode.AUTO:
        return _manual(s, now)
    if found.upper is not None and now > found.upper:
        text = f"Replicas {now} -> {found.upper}: the maximum."
        return _move(now, found.upper, Reason.ABOVE_MAXIMUM, text)
    if now >= found.lower:
        return None
    if found.scheduled is not None:
        return scheduled(s, found)
    if found.manual_floor == found.lower:
        text = f"Replicas {now} -> {found.lower}: spec.replicas is a floor for a while."
        return _move(now, found.lower, Reason.MANUAL_FLOOR, text)
    return _move(now, found.lower, Reason.BELOW_MINIMUM, f"Replicas {now} -> {found.lower}.")


def scheduled(s: Situation, found: Limits) -> Move | None:
    """The move to a minimum that a schedule asks for, None where it asks for none."""
    floor, now = found.scheduled, s.fleet.desired_replicas
    if floor is None or now >= found.lower:
        return None
    name, early_s = f'the schedule "{floor.schedule}"', floor.opens_s - s.now_s
    text = f"Replicas {now} -> {found.lower}: {name} asks for at least {found.lower}"
    if early_s > 0:
        text += (
            f" from {phrases.clock(floor.opens_s, s.now_s)} on, and a replica takes "
            f"{s.cold_start_s:.0f} s to serve"
        )
    return _move(now, found.lower, Reason.SCHEDULE, f"{text}.")


def condition(s: Situation, found: Limits, wish: tuple[int, int] | None) -> ScalingLimit | None:
    """Why replicas are not what demand asks for.

    Args:
        s: The situation.
        found: Limits in force.
        wish: Replicas wanted, and how many would do; None where nobody can tell.
    """
    return (
        _by_room(s)
        or _by_manual_floor(s, found)
        or _by_freeze(s, found, wish)
        or _by_allowance(s, found, wish)
        or _by_maximum(s, found, wish)
        or _by_stuck_pods(s)
        or _by_lost_pods(s, found, wish)
        or _by_mode(s, found, wish)
        or _by_pause(s, found, wish)
        or _by_schedule(s, found, wish)
    )


def _by_room(s: Situation) -> ScalingLimit | None:
    """Pods that are wanted and no node takes, whatever they are wanted for."""
    found = [pod.no_room for pod in s.fleet.pending if pod.no_room]
    if not found:
        return None
    text = f"No node has room for {phrases.counted(len(found), 'pod')}: {found[0]}"
    return ScalingLimit(reason=Reason.UNSCHEDULABLE, message=text)


def _by_manual_floor(s: Situation, found: Limits) -> ScalingLimit | None:
    if found.manual_floor is None:
        return None
    left_s = (found.expires_s or s.now_s) - s.now_s
    text = (
        f"spec.replicas of {found.manual_floor} holds as a floor for another "
        f"{left_s / 60:.0f} min; remove it or wait to let the autopilot go lower."
    )
    return ScalingLimit(reason=Reason.MANUAL_FLOOR, message=text, expires_s=found.expires_s)


def _by_maximum(s: Situation, found: Limits, wish: tuple[int, int] | None) -> ScalingLimit | None:
    """In Auto: in other modes a larger one would move nothing, and they tell of it."""
    if wish is None or found.upper is None or wish[0] <= found.upper:
        return None
    if s.policy.scaling_mode is not Mode.AUTO:
        return None
    text = f"{phrases.counted(wish[0], 'replica')} needed, maxReplicas is {found.upper}."
    return ScalingLimit(reason=Reason.AT_MAXIMUM, message=text)


def _by_stuck_pods(s: Situation) -> ScalingLimit | None:
    late = len(s.fleet.pending) - len(pending.young(s))
    if not late:
        return None
    text = (
        f"{phrases.counted(late, 'pod')} not ready after twice the usual start of "
        f"{s.cold_start_s:.0f} s, or in a crash loop; see the condition Ready for the cause."
    )
    return ScalingLimit(reason=Reason.PENDING_STUCK, message=text)


def _by_lost_pods(s: Situation, found: Limits, wish: tuple[int, int] | None) -> ScalingLimit | None:
    """Pods that nobody can read, where fewer would do."""
    if wish is None or found.clamp(wish[1]) >= s.fleet.desired_replicas:
        return None
    return unseen.limit(s) if s.policy.scaling_mode is Mode.AUTO else None


def _by_mode(s: Situation, found: Limits, wish: tuple[int, int] | None) -> ScalingLimit | None:
    """Where the user keeps the autopilot from ordering what demand asks for."""
    reasons = {Mode.OFF: Reason.MODE_OFF, Mode.RECOMMEND: Reason.RECOMMEND_ONLY}
    reason = reasons.get(s.policy.scaling_mode)
    if wish is None or reason is None or wish[0] <= s.fleet.desired_replicas:
        return None
    asked, mode = phrases.counted(wish[0], "replica"), s.policy.scaling_mode.value
    who = phrases.lowered(is_lowered=s.policy.scaling_lowered)
    most = found.upper if found.upper is not None and wish[0] > found.upper else None
    also = "" if most is None else f", and maxReplicas is {most}"
    text = f"Demand asks for {asked}, but the scaling mode is {mode}{who}{also}."
    return ScalingLimit(reason=reason, message=text)


def _by_pause(s: Situation, found: Limits, wish: tuple[int, int] | None) -> ScalingLimit | None:
    if wish is None or s.policy.scaling_mode is not Mode.AUTO:
        return None
    now, pause = s.fleet.desired_replicas, s.policy.pause
    out = found.clamp(wish[0]) > now and pause in (Pause.OUT, Pause.ALL)
    inward = found.clamp(wish[1]) < now and pause in (Pause.IN, Pause.ALL)
    if not (out or inward):
        return None
    asked = phrases.counted(wish[0] if out else wish[1], "replica")
    text = f"Demand asks for {asked}, but scaling is paused."
    return ScalingLimit(reason=Reason.PAUSED, message=text)


def _by_freeze(s: Situation, found: Limits, wish: tuple[int, int] | None) -> ScalingLimit | None:
    held = timetable.frozen(s.policy, s.now_s)
    if wish is None or held is None or s.policy.scaling_mode is not Mode.AUTO:
        return None
    now = s.fleet.desired_replicas
    out = found.clamp(wish[0]) > now and held.scope is FreezeScope.ALL
    if not out and found.clamp(wish[1]) >= now:
        return None
    asked = phrases.counted(wish[0] if out else wish[1], "replica")
    text = f"Demand asks for {asked}, but moves are {held.text(s.now_s)}."
    expires_s = held.ends_s if isfinite(held.ends_s) else None
    return ScalingLimit(reason=Reason.FROZEN, message=text, expires_s=expires_s)


def _by_allowance(s: Situation, found: Limits, wish: tuple[int, int] | None) -> ScalingLimit | None:
    """The limit on changes over all services, where it keeps this one from growing."""
    allowance, now = s.fleet.allowance, s.fleet.desired_replicas
    if wish is None or allowance.out is None or s.policy.scaling_mode is not Mode.AUTO:
        return None
    if found.clamp(wish[0]) - now <= allowance.out:
        return None
    asked = phrases.counted(wish[0], "replica")
    text = f"Demand asks for {asked}, but services may only change so much a minute."
    return ScalingLimit(reason=Reason.BLAST_RADIUS, message=text, expires_s=allowance.until_s)


def _by_schedule(s: Situation, found: Limits, wish: tuple[int, int] | None) -> ScalingLimit | None:
    floor = found.scheduled
    if wish is None or floor is None or s.policy.scaling_mode is not Mode.AUTO:
        return None
    if wish[1] >= found.lower:
        return None
    text = (
        f"{phrases.counted(wish[1], 'replica')} would do, but the schedule "
        f'"{floor.schedule}" asks for at least {found.lower}.'
    )
    return ScalingLimit(reason=Reason.SCHEDULE, message=text, expires_s=floor.ends)


def _manual(s: Situation, now: int) -> Move | None:
    wanted = ordered(s.policy, s.memory)
    if wanted is not None and wanted != now:
        return _move(now, wanted, Reason.MANUAL_VALUE, f"Replicas {now} -> {wanted}, as asked.")
    if wanted is None and not s.policy.is_braked and now < s.policy.min_replicas:
        text = f"Replicas {now} -> {s.policy.min_replicas}: the minimum."
        return _move(now, s.policy.min_replicas, Reason.BELOW_MINIMUM, text)
    if s.policy.scaling_mode is Mode.OFF:
        return _move(now, now, Reason.MODE_OFF, f"Scaling is Off; replicas stay at {now}.")
    return None


def _move(now: int, after: int, reason: Reason, message: str) -> Move:
    return Move(knob=Knob.REPLICAS, before=now, after=after, reason=reason, message=message)
