"""The slow loop: replicas, every 15 s."""

from __future__ import annotations

from dataclasses import replace

from paceline_operator.autopilot.replicas import account as replica_account
from paceline_operator.autopilot.replicas import (
    bursts,
    figures,
    hit_shares,
    recommendation,
    regret,
    unseen,
)
from paceline_operator.autopilot.replicas import limits as replica_limits
from paceline_operator.autopilot.replicas.account import IN_SHARE, OUT_WINDOW_S
from paceline_operator.autopilot.replicas.capacity_evidence import AIM, corrected, late_share_with
from paceline_operator.autopilot.replicas.limits import Limits
from paceline_operator.autopilot.replicas.need import DOWN_INFLATION, Need, need
from paceline_operator.autopilot.replicas.pending import coming
from paceline_operator.autopilot.replicas.recommendation import interrupted, peak, recorded
from paceline_operator.autopilot.replicas.regret import TURN_S
from paceline_operator.autopilot.replicas.scale_in_guard import forbidden_in
from paceline_operator.autopilot.situation import restraint
from paceline_operator.autopilot.situation.restraint import Restraint
from paceline_operator.autopilot.situation.situation import REPLICA_EVERY_S, Situation
from paceline_operator.autopilot.vocabulary import phrases
from paceline_operator.autopilot.vocabulary.decision import Knob, Reason, ScalingLimit, SetReplicas
from paceline_operator.autopilot.vocabulary.fleet import DataClass
from paceline_operator.autopilot.vocabulary.memory import Memory
from paceline_operator.autopilot.vocabulary.move import Move, Outcome

MOST_NEW = 4

__all__ = ["REPLICA_EVERY_S", "limit", "run"]


def run(s: Situation, *, feasible: bool) -> Outcome:
    """One pass of the loop."""
    limits = replica_limits.limits(s)
    memory = replace(s.memory, replica_at_s=s.now_s)
    blind = _blind(s)
    if blind is not None:
        memory = interrupted(memory)
    certain = replica_limits.forced(s, limits) or blind
    if certain is not None:
        return _settled(s, certain, memory, None, limits)
    found = need(s, feasible=feasible)
    s = replace(s, memory=bursts.noted(s, found.wanted))
    s = replace(s, memory=hit_shares.noted(s))
    memory = recorded(s, corrected(s), limits.recorded(found.keep))
    if unseen.hides_demand(s):
        memory = interrupted(memory)
    bound = s.memory.bound if found.bound is None else found.bound.value
    memory = replace(memory, replica_at_s=s.now_s, bound=bound)
    wish = _wish(replace(s, memory=memory), found, limits)
    return _settled(s, wish, memory, found, limits)


def limit(s: Situation, *, feasible: bool) -> ScalingLimit | None:
    """What keeps replicas from what demand asks for, for the condition."""
    limits = replica_limits.limits(s)
    if _blind(s) is not None:
        return replica_limits.condition(s, limits, None)
    found = need(s, feasible=feasible)
    return replica_limits.condition(s, limits, (found.wanted, found.keep))


def _blind(s: Situation) -> Move | None:
    if not s.fleet.serving:
        return _hold(s, Reason.NO_PODS, "No pod serves yet; replicas stay.")
    if s.data is DataClass.ABSENT:
        return _hold(s, Reason.DATA_ABSENT, "No pod reports metrics; replicas are never lowered.")
    if s.data is DataClass.STALE:
        return _hold(s, Reason.DATA_STALE, "Most metrics are too old to act on; replicas stay.")
    if not s.policy.steering:
        missing = phrases.no_objective(len(s.policy.objectives))
        return _hold(s, Reason.NO_OBJECTIVE, f"{missing}: nothing to scale for.")
    return None


def _wish(s: Situation, found: Need, limits: Limits) -> Move:
    now = s.fleet.desired_replicas
    wanted = limits.clamp(found.wanted)
    if wanted > max(now, found.wanted):
        return replica_limits.scheduled(s, limits) or _out(s, found, wanted)
    if wanted > now:
        return _short_surge(s, found) or _hardly_more(s, found) or _out(s, found, wanted)
    if found.wanted > now:
        text = f"{found.message} The maximum of {limits.upper} is reached."
        return _hold(s, Reason.AT_MAXIMUM, text)
    return _inwards(s, found, limits)


def _short_surge(s: Situation, found: Need) -> Move | None:
    """A hold while the load may only be one of the bursts that are over before replicas serve.

    One replica in vain costs less than a load that goes on and is one of them too often.
    """
    confirmed_at_s = bursts.confirmed_at_s(s)
    if confirmed_at_s is None or found.wanted <= s.fleet.desired_replicas + 1:
        return None
    known, wait_s = s.memory.bursts, confirmed_at_s - s.now_s
    text = (
        f"{found.message} Surges of up to {known.lasted_s:.0f} s were over before replicas served; "
        f"this one counts in {wait_s:.0f} s."
    )
    return _hold(s, Reason.COOLDOWN, text)


def _hardly_more(s: Situation, found: Need) -> Move | None:
    """A hold so soon after a scale-in, where objectives hold and the model hardly asks for more."""
    since_s, now = s.now_s - s.memory.scaled_in_at_s, s.fleet.desired_replicas
    is_own = s.memory.scaled_in_from > 0
    if not is_own or since_s >= TURN_S or found.uncorrected is None or _is_felt(s):
        return None
    if found.uncorrected > DOWN_INFLATION * now:
        return None
    text = (
        f"{found.message} Objectives hold with {now}, the model alone asks for "
        f"{found.uncorrected:.1f}, and the last scale-in was {since_s:.0f} s ago."
    )
    return _hold(s, Reason.COOLDOWN, text)


def _is_felt(s: Situation) -> bool:
    """Whether an objective is missed, or would be but for a squeeze."""
    return bool(s.late) or s.itl_violated or s.memory.squeezed_seqs is not None


def _out(s: Situation, found: Need, wanted: int) -> Move:
    now = s.fleet.desired_replicas
    lately = s.now_s - s.memory.scaled_out_at_s < OUT_WINDOW_S
    start = s.memory.scaled_out_from if lately and s.memory.scaled_out_from else now
    after = min(wanted, start + max(MOST_NEW, start))
    if after <= now:
        text = f"{found.message} No more than {after} within {OUT_WINDOW_S:.0f} s."
        return _hold(s, Reason.COOLDOWN, text)
    guard = Reason.COOLDOWN if after < wanted else None
    guard = Reason.AT_MAXIMUM if after < found.wanted and guard is None else guard
    memory = replace(
        s.memory,
        scaled_out_at_s=s.now_s,
        scaled_out_from=start,
        regret=regret.of_scale_out(s, after),
        returned=recommendation.of_scale_out(s),
    )
    text = f"Replicas {now} -> {after}: {found.message}"
    return _move(s, after, found.reason, text, guard=guard, memory=memory)


def _inwards(s: Situation, found: Need, limits: Limits) -> Move:
    now, keep = s.fleet.desired_replicas, limits.clamp(found.keep)
    if coming(s) and keep >= now:
        missing = max(1, now - len(s.fleet.serving))
        text = f"{phrases.counted(missing, 'replica')} on the way; holding."
        return _hold(s, Reason.CAPACITY_PENDING, text)
    if keep >= now:
        reason = Reason.AT_MINIMUM if now <= limits.lower else Reason.OBJECTIVES_MET
        if found.capacity_rps is None or found.reason is Reason.TTFT_QUEUE:
            reason = found.reason
        return _hold(s, reason, f"{found.message} Replicas stay at {now}.")
    reason_text = forbidden_in(s)
    if reason_text is not None:
        return _hold(s, reason_text[0], f"{keep} of {now} replicas would do. {reason_text[1]}")
    return _fewer(s, found, keep, limits)


def _fewer(s: Situation, found: Need, keep: int, limits: Limits) -> Move:
    """Nothing forbids a scale-in as such: as far as what was measured before allows one."""
    now, would = s.fleet.desired_replicas, f"{keep} of {s.fleet.desired_replicas} replicas would do"
    lowest, regretted = max(peak(s.memory), limits.lower), regret.least_replicas(s)
    if lowest >= now:
        text = f"{would}, but {lowest} were needed in the down window."
        return _hold(s, Reason.DOWN_WINDOW, text)
    if regretted >= now:
        text = f"{would}, but so few were too few at such a load lately."
        return _hold(s, Reason.DOWN_WINDOW, text)
    least = max(lowest, regretted, now - max(1, round(now / IN_SHARE)))
    after = next((n for n in range(least, now) if _in_time(s, n)), now)
    if after == now:
        late = 100 * (late_share_with(s, now - 1) or 0.0)
        spent = f"{now - 1} would spend {late:.0f} % of what may be late"
        return _hold(
            s, Reason.TTFT_QUEUE, f"{would} by the model, but by what is late now {spent}."
        )
    text = f"Replicas {now} -> {after}: {found.message}"
    return _move(s, after, Reason.DEMAND_LOW, text, memory=regret.scaled_in(s, s.memory))


def _in_time(s: Situation, replicas: int) -> bool:
    """Whether so few would be late no more than is aimed at, as far as measurements say."""
    late = late_share_with(s, replicas)
    return late is None or late <= AIM


def _settled(
    s: Situation, wish: Move, memory: Memory, found: Need | None, limits: Limits
) -> Outcome:
    """Applies what may hold the wish."""
    inputs = figures.of_replicas(s, found, limits, memory)
    held = None if wish.holds else restraint.of_replicas(s, wish)
    if wish.holds or held is not None:
        shown = wish if held is None else _refused(wish, held)
        guard = None if held is None else held.reason
        decision = shown.decision(s.now_s, inputs, applied=False, guard=guard)
        told = replica_account.told(s, decision, memory, found, limits)
        return Outcome(decisions=(told,), memory=memory)
    wish = restraint.shortened(s, wish)
    decision = wish.decision(s.now_s, inputs, applied=True)
    action = SetReplicas(replicas=wish.after, reason=wish.reason)
    moved = replace(wish.memory or _forced(s, wish, memory), replica_at_s=s.now_s)
    told = replica_account.told(s, decision, moved, found, limits)
    return Outcome(decisions=(told,), memory=moved, actions=(action,))


def _forced(s: Situation, wish: Move, memory: Memory) -> Memory:
    """Limits and manual values move the fleet too: what was measured before is of another one.

    What people take away is no scale-in that the autopilot could regret.
    """
    if wish.after < wish.before:
        return replace(memory, scaled_in_at_s=s.now_s, scaled_in_from=0)
    return replace(memory, scaled_out_at_s=s.now_s, scaled_out_from=wish.before)


def _refused(wish: Move, held: Restraint) -> Move:
    shown = replace(wish, message=held.text + wish.message)
    if held.reason is Reason.RECOMMEND_ONLY:
        return shown
    return replace(shown, after=wish.before, reason=held.reason)


def _hold(s: Situation, reason: Reason, message: str) -> Move:
    now = s.fleet.desired_replicas
    return Move(knob=Knob.REPLICAS, before=now, after=now, reason=reason, message=message)


def _move(
    s: Situation,
    after: int,
    reason: Reason,
    message: str,
    *,
    guard: Reason | None = None,
    memory: Memory | None = None,
) -> Move:
    return Move(
        knob=Knob.REPLICAS,
        before=s.fleet.desired_replicas,
        after=after,
        reason=reason,
        message=message,
        guard=guard,
        memory=memory,
    )
