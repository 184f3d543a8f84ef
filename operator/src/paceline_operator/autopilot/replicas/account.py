"""What a decision about replicas tells beside its words: options, next steps, effect."""

from __future__ import annotations

from dataclasses import replace

from paceline_operator.autopilot.plant.capacity import steady_state
from paceline_operator.autopilot.replicas.limits import Limits
from paceline_operator.autopilot.replicas.need import DOWN_INFLATION, Need
from paceline_operator.autopilot.replicas.recommendation import peak, peaks_ahead
from paceline_operator.autopilot.replicas.scale_in_guard import IN_COOLDOWN_S, forbidden_in
from paceline_operator.autopilot.situation.scene import SETTLE_S
from paceline_operator.autopilot.situation.situation import Situation
from paceline_operator.autopilot.vocabulary import phrases
from paceline_operator.autopilot.vocabulary.decision import (
    Action,
    Candidate,
    Decision,
    Effect,
    Inputs,
    NextStep,
    Reason,
)
from paceline_operator.autopilot.vocabulary.memory import Memory

OUT_WINDOW_S = 30.0
IN_SHARE = 4
JUDGED_OVER_S = 60.0


def told(
    s: Situation, decision: Decision, memory: Memory, found: Need | None, limits: Limits
) -> Decision:
    """The decision with its account.

    Args:
        s: Situation it was made in.
        decision: It.
        memory: Memory after it.
        found: What demand asks for, None where it was not asked.
        limits: Limits in force.
    """
    if found is None:
        return replace(decision, expected=_effect(s, decision, None) if decision.applied else None)
    return replace(
        decision,
        considered=_considered(s, decision, memory, found, limits),
        next_steps=_next_steps(replace(s, memory=memory), decision, found, limits),
        expected=_effect(s, decision, found) if decision.applied else None,
    )


def _considered(
    s: Situation, decision: Decision, memory: Memory, found: Need, limits: Limits
) -> tuple[Candidate, ...]:
    now = s.fleet.desired_replicas
    chosen = decision.after if decision.applied and decision.after is not None else now
    values = {now, chosen, found.wanted, found.keep, peak(memory), max(1, now - 1)}
    if decision.after is not None:
        values.add(decision.after)
    return tuple(
        Candidate(
            value=value,
            chosen=value == chosen,
            reason=_why(decision, memory, found, limits, value, chosen),
            message=_load_text(s, found, value),
            figures=_load(s, found, value),
        )
        for value in sorted(values - {0})
    )


def _why(
    decision: Decision, memory: Memory, found: Need, limits: Limits, value: int, chosen: int
) -> Reason:
    """Why this many, or why not: the first limit that stands against it."""
    bound = decision.guard or decision.reason
    limits_in_order = (
        (value == chosen, decision.reason),
        (limits.upper is not None and value > limits.upper, Reason.AT_MAXIMUM),
        (value < limits.lower, Reason.AT_MINIMUM),
        (value < found.wanted, found.reason),
        (value < found.keep, Reason.HEADROOM_KEPT),
        (value > max(chosen, found.keep), Reason.MORE_THAN_NEEDED),
        (value < min(chosen, peak(memory)), Reason.DOWN_WINDOW),
    )
    return next((reason for holds, reason in limits_in_order if holds), bound)


def _load(s: Situation, found: Need, replicas: int) -> Inputs:
    if found.capacity_rps is None:
        return {}
    holds = found.capacity_rps * replicas
    return {"usableRps": holds, "useShare": s.demand.forecast_rps / max(1e-9, holds)}


def _load_text(s: Situation, found: Need, replicas: int) -> str:
    if found.capacity_rps is None:
        return "the model cannot say what a replica holds"
    holds = found.capacity_rps * replicas
    return f"{phrases.rps(holds)} fit, {phrases.rps(s.demand.forecast_rps)} are expected"


def _next_steps(
    s: Situation, decision: Decision, found: Need, limits: Limits
) -> tuple[NextStep, ...]:
    """Of the situation after the decision."""
    replicas = decision.after if decision.applied and decision.after else s.fleet.desired_replicas
    steps = (_out(s, found, limits, replicas), _in(s, found, limits, replicas))
    return tuple(step for step in steps if step is not None)


def _out(s: Situation, found: Need, limits: Limits, replicas: int) -> NextStep | None:
    if limits.upper is not None and replicas >= limits.upper:
        text = f"no more than {limits.upper}: the maximum"
        return NextStep(action=Action.SCALE_OUT, waits_for=Reason.AT_MAXIMUM, message=text)
    if found.wanted > replicas:
        return NextStep(
            action=Action.SCALE_OUT,
            value=limits.clamp(found.wanted),
            earliest_s=s.memory.scaled_out_at_s + OUT_WINDOW_S,
            waits_for=Reason.COOLDOWN,
            message=f"the rest of the {found.wanted} that are needed follows",
        )
    if found.capacity_rps is None:
        return None
    most = found.capacity_rps * replicas
    text = f"one more replica once more than {phrases.rps(most)} are expected"
    return NextStep(
        action=Action.SCALE_OUT,
        value=replicas + 1,
        waits_for=Reason.DEMAND_FORECAST,
        message=f"{text} (now {phrases.rps(s.demand.forecast_rps)})",
    )


def _in(s: Situation, found: Need, limits: Limits, replicas: int) -> NextStep | None:
    if replicas <= limits.lower:
        return _floor(s, limits)
    if found.capacity_rps is None and s.has_traffic:
        text = "scale-in waits until the step-time model is known"
        return NextStep(action=Action.SCALE_IN, waits_for=Reason.MODEL_LEARNING, message=text)
    if limits.clamp(found.keep) >= replicas:
        return _in_by_load(s, found, replicas)
    cooled_s = s.memory.scaled_in_at_s + IN_COOLDOWN_S
    ahead = peaks_ahead(s, s.memory)
    at_s, left = next(((at_s, n) for at_s, n in ahead if n < replicas), ahead[-1])
    value = max(left, limits.lower, replicas - max(1, round(replicas / IN_SHARE)))
    earliest_s = max(s.now_s, cooled_s, at_s)
    return NextStep(
        action=Action.SCALE_IN,
        value=min(value, replicas - 1),
        earliest_s=earliest_s,
        waits_for=_waits_for(s, at_s, cooled_s),
        message=_in_text(s, replicas, at_s, cooled_s, limits),
    )


def _waits_for(s: Situation, at_s: float, cooled_s: float) -> Reason:
    if at_s > max(s.now_s, cooled_s):
        return Reason.DOWN_WINDOW
    if cooled_s > s.now_s:
        return Reason.COOLDOWN
    forbidden = forbidden_in(s)
    return Reason.DEMAND_LOW if forbidden is None else forbidden[0]


def _in_text(s: Situation, replicas: int, at_s: float, cooled_s: float, limits: Limits) -> str:
    highest = max(peak(s.memory), limits.lower)
    parts = []
    if highest >= replicas:
        parts.append(f"the highest recommendation of the down window is {highest}")
    elif at_s > s.now_s:
        parts.append("the down window is not over")
    if cooled_s > s.now_s:
        parts.append("the last scale-in is too recent")
    other = forbidden_in(s)
    if other is not None and other[0] not in (Reason.DOWN_WINDOW, Reason.COOLDOWN):
        parts.append(other[1].rstrip(".").lower())
    return "; ".join(parts) or "nothing stands against it"


def _floor(s: Situation, limits: Limits) -> NextStep:
    if limits.scheduled is not None:
        return NextStep(
            action=Action.SCALE_IN,
            earliest_s=limits.scheduled.ends,
            waits_for=Reason.SCHEDULE,
            message=f'"{limits.scheduled.schedule}" asks for {limits.lower} until then',
        )
    if limits.manual_floor is None:
        text = f"no fewer than {limits.lower}: the minimum"
        return NextStep(action=Action.SCALE_IN, waits_for=Reason.AT_MINIMUM, message=text)
    return NextStep(
        action=Action.SCALE_IN,
        earliest_s=limits.expires_s,
        waits_for=Reason.MANUAL_FLOOR,
        message=f"spec.replicas of {limits.manual_floor} holds as a floor until then",
    )


def _in_by_load(s: Situation, found: Need, replicas: int) -> NextStep | None:
    if found.capacity_rps is None:
        return None
    most = found.capacity_rps * (replicas - 1) / DOWN_INFLATION
    text = f"one replica less once no more than {phrases.rps(most)} are expected"
    return NextStep(
        action=Action.SCALE_IN,
        value=replicas - 1,
        waits_for=Reason.DEMAND_LOW,
        message=f"{text} (now {phrases.rps(s.demand.forecast_rps)}), over the whole down window",
    )


def _effect(s: Situation, decision: Decision, found: Need | None) -> Effect:
    """Once what was ordered serves, under the load that is expected then."""
    after, serving = decision.after or 0, len(s.fleet.serving)
    wait_s = s.cold_start_s if after > serving else 0.0
    figures: Inputs = {"servingPods": after, "offeredRps": s.demand.forecast_rps}
    if found is not None and found.capacity_rps is not None and s.capacity_budget is not None:
        rps = s.demand.forecast_rps / max(1, after)
        state = steady_state(s.plant, s.terms(s.capacity_budget), rps)
        figures["capacityRps"] = found.capacity_rps * after
        figures["ttftMs"] = None if state.ttft_ms == float("inf") else state.ttft_ms
        figures["decodeStepMs"] = state.decode_ms
    return Effect(due_s=s.now_s + wait_s + SETTLE_S + JUDGED_OVER_S, figures=figures)
