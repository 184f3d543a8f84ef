"""What a decision about the live knobs tells beside its words: options, next steps, effect."""

from __future__ import annotations

from dataclasses import replace

from paceline_operator.autopilot.knobs import margin
from paceline_operator.autopilot.knobs.itl_rules import CUT_COOLDOWN_S, SQUEEZE_LASTS_S
from paceline_operator.autopilot.knobs.trial_rules import FAILED_LASTS_S, LONGEST_S, failed
from paceline_operator.autopilot.knobs.ttft_rules import (
    RAISE_AFTER_LOWER_S,
    REFUSED_LASTS_S,
    goes_back_to_refused,
    raise_wait_s,
)
from paceline_operator.autopilot.situation.situation import Situation
from paceline_operator.autopilot.vocabulary import phrases
from paceline_operator.autopilot.vocabulary.decision import (
    Action,
    Candidate,
    Decision,
    Effect,
    Inputs,
    Knob,
    NextStep,
    Reason,
)

JUDGED_AFTER_S = 30.0
"""A budget's effect shows within seconds; this long it takes to have steps enough."""


def told(s: Situation, decision: Decision, after: Situation) -> Decision:
    """The decision with its account.

    Args:
        s: Situation it was made in.
        decision: It.
        after: Situation once it is done.
    """
    is_blind = not s.fleet.serving or not s.policy.steering
    trial = after.memory.trial
    # What was considered and expected is by the figures that the decision was made from.
    s = replace(s, memory=replace(s.memory, trial=trial))
    return replace(
        decision,
        message=decision.message + _tried_beside(after, decision),
        considered=() if is_blind else _considered(s, decision, after),
        next_steps=() if is_blind else _next_steps(after, decision),
        expected=_effect(s, decision) if decision.applied else None,
    )


def _tried_beside(s: Situation, decision: Decision) -> str:
    """That one pod has another budget, where a decision for all does not say so itself."""
    trial = s.memory.trial
    if trial is None or decision.applied or decision.reason is Reason.CANARY:
        return ""
    return f" {_who_tries(s)} {trial.budget}."


def _who_tries(s: Situation) -> str:
    return f"One pod of {len(s.fleet.serving)} tries"


def _considered(s: Situation, decision: Decision, after: Situation) -> tuple[Candidate, ...]:
    if decision.knob is Knob.RUNNING_SEQS:
        return _considered_seqs(s, decision)
    if decision.knob is Knob.STEP_TIME:
        return (_step_time(s, decision),) if s.step_time_target_ms is not None else ()
    now, ladder = s.knobs.max_num_batched_tokens, s.ladder()
    chosen = after.knobs.max_num_batched_tokens
    values = {now, chosen, s.cap_or_floor, ladder.next_up(now), ladder.next_up(s.cap_or_floor)}
    if decision.after is not None:
        values.add(decision.after)
    return tuple(_budget(s, decision, value, chosen) for value in sorted(values))


def _step_time(s: Situation, decision: Decision) -> Candidate:
    """The one step time that objective and margin leave, and what fits into it by the model."""
    value = (decision.after if decision.applied else decision.before) or 0
    target_ms, cap, rows = s.itl_target_ms or 0.0, s.cap_or_floor, s.plant.workload.rows_p95
    if s.cap is not None:
        fits = f"by the model a step of {cap} tokens fits beside {rows:.0f} sequences that decode"
    else:
        fits = (
            f"by the model not even the smallest budget of {cap} tokens fits beside {rows:.0f} "
            f"sequences that decode: {phrases.ms(s.plant.full_ms(cap))}"
        )
    return Candidate(
        value=value,
        chosen=True,
        reason=decision.reason,
        message=f"{s.memory.margin:.0%} of {phrases.ms(target_ms)} are kept free; {fits}",
        figures={"fullStepMs": s.plant.full_ms(cap), "budget": cap},
    )


def _budget(s: Situation, decision: Decision, value: int, chosen: int) -> Candidate:
    step_ms, target = s.plant.full_ms(value), s.itl_target_ms
    figures: Inputs = {"fullStepMs": step_ms}
    text = f"a full step takes {phrases.ms(step_ms)}"
    is_too_long = False
    if target is not None:
        allowed_ms = (1 - s.margin) * target
        figures["allowedStepMs"] = allowed_ms
        text += f", {phrases.ms(allowed_ms)} are allowed"
        is_too_long = step_ms > allowed_ms
    if s.memory.trial is not None and s.memory.trial.budget == value:
        text += f"; {_who_tries(s).lower()} it"
    return Candidate(
        value=value,
        chosen=value == chosen,
        reason=_why(decision, value, chosen, is_too_long=is_too_long),
        message=text,
        figures=figures,
    )


def _why(decision: Decision, value: int, chosen: int, *, is_too_long: bool) -> Reason:
    if value == chosen:
        return decision.reason
    if is_too_long:
        return Reason.ABOVE_MODEL_CAP
    if value < chosen:
        return decision.reason if decision.applied else Reason.DEAD_BAND
    return decision.guard or decision.reason


def _considered_seqs(s: Situation, decision: Decision) -> tuple[Candidate, ...]:
    chosen = decision.after if decision.applied else decision.before
    values = {v for v in (decision.before, decision.after) if v is not None}
    return tuple(
        Candidate(
            value=value,
            chosen=value == chosen,
            reason=decision.reason,
            message=f"with so many a step that only decodes takes "
            f"{phrases.ms(s.plant.decode_ms(float(value)))}",
            figures={"decodeStepMs": s.plant.decode_ms(float(value))},
        )
        for value in sorted(values)
    )


def _next_steps(s: Situation, decision: Decision) -> tuple[NextStep, ...]:
    """Of the situation after the decision."""
    if s.step_time_target_ms is not None:
        squeeze, moves = _squeeze_ends(s), _step_time_moves(s)
        return moves if squeeze is None else (squeeze, *moves)
    budget = s.knobs.max_num_batched_tokens
    upwards = _trial_ends(s, budget) or _raise(s, decision, budget)
    found = (_squeeze_ends(s), upwards, _cut(s, budget))
    return tuple(step for step in found if step is not None)


def _step_time_moves(s: Situation) -> tuple[NextStep, NextStep]:
    """The margin is an integral of what gaps attain."""
    target_ms = s.itl_target_ms or 0.0
    least_ms, most_ms = ((1 - share) * target_ms for share in (margin.MOST, margin.LEAST))
    return (
        NextStep(
            action=Action.LOWER,
            waits_for=Reason.ITL_PREFILL_BOUND,
            message=f"the step time falls while ITL is missed, to {phrases.ms(least_ms)} at least",
            earliest_s=margin.useless_until_s(s),
        ),
        NextStep(
            action=Action.RAISE,
            waits_for=Reason.STEP_TIME_TARGET,
            message=(
                "the step time rises while more gaps are in time than must be, to "
                f"{phrases.ms(most_ms)} at most"
            ),
        ),
    )


def _trial_ends(s: Situation, budget: int) -> NextStep | None:
    trial, ends_s = s.memory.trial, s.memory.trial_at_s + LONGEST_S
    if trial is None:
        return None
    if trial.probes:
        return NextStep(
            action=Action.LOWER if trial.budget > budget else Action.RAISE,
            value=budget,
            earliest_s=_later(s, ends_s),
            waits_for=Reason.PROBE,
            message=f"the one pod of {len(s.fleet.serving)} that has {trial.budget} to learn from",
        )
    return NextStep(
        action=Action.RAISE,
        value=trial.budget,
        waits_for=Reason.CANARY,
        message=(
            f"all pods get it if full steps of the one that tries it keep the ITL target, "
            f"else that one has {budget} again, by {phrases.second(ends_s)}"
        ),
    )


def _squeeze_ends(s: Situation) -> NextStep | None:
    wanted = s.memory.squeezed_seqs
    if wanted is None:
        return None
    return NextStep(
        action=Action.RAISE,
        value=wanted,
        earliest_s=_later(s, s.memory.lowered_at_s + SQUEEZE_LASTS_S),
        waits_for=Reason.CAPACITY_ARRIVED,
        message=(
            f"running sequences go back to {wanted} once more than "
            f"{phrases.counted(s.memory.squeezed_replicas, 'replica')} serve, or demand falls"
        ),
    )


def _raise(s: Situation, decision: Decision, budget: int) -> NextStep | None:
    cap, ladder = s.cap_or_floor, s.ladder()
    if budget >= ladder.ceiling:
        return None
    if budget >= cap:
        return NextStep(
            action=Action.RAISE,
            waits_for=Reason.AT_MODEL_CAP,
            message=(
                f"a larger budget waits until the ITL target allows more than {cap} tokens: "
                "fewer sequences at once, or faster steps"
            ),
        )
    earliest_s = _later(s, raise_from_s(s))
    pressed = decision.reason in (Reason.TTFT_PRESSURE, Reason.DEMAND_EXPECTED, Reason.COOLDOWN)
    why = "if first tokens are still pressed" if pressed else "once first tokens are pressed"
    return NextStep(
        action=Action.RAISE,
        value=min(cap, ladder.next_up(budget)),
        earliest_s=earliest_s,
        waits_for=Reason.TTFT_PRESSURE if earliest_s is None else _raise_waits_for(s),
        message=f"the budget rises towards {cap} {why}",
    )


def _raise_waits_for(s: Situation) -> Reason:
    return Reason.CANARY_ROLLED_BACK if _has_failed_next(s) else Reason.COOLDOWN


def _has_failed_next(s: Situation) -> bool:
    """Whether every larger budget is one that failed on one pod, or larger than that."""
    least = s.memory.failed_budget
    is_next = s.ladder().down(least - 1) <= s.knobs.max_num_batched_tokens
    return failed(s, least) and is_next


def _later(s: Situation, at_s: float) -> float | None:
    """A moment that is still to come, else None."""
    return at_s if at_s > s.now_s else None


def raise_from_s(s: Situation) -> float:
    """First moment at which the cool-downs, and what has failed, allow a raise."""
    memory = s.memory
    after = [memory.raised_at_s + raise_wait_s(s), memory.lowered_at_s + RAISE_AFTER_LOWER_S]
    if goes_back_to_refused(s, s.ladder().next_up(s.knobs.max_num_batched_tokens)):
        after.append(memory.refused_at_s + REFUSED_LASTS_S)
    if _has_failed_next(s):
        after.append(memory.failed_at_s + FAILED_LASTS_S)
    return max(after)


def _cut(s: Situation, budget: int) -> NextStep | None:
    target, ladder = s.itl_target_ms, s.ladder()
    if target is None or budget <= ladder.floor:
        return None
    most_ms = (1 - s.margin / 2) * target
    return NextStep(
        action=Action.LOWER,
        earliest_s=_later(s, s.memory.lowered_at_s + CUT_COOLDOWN_S),
        waits_for=Reason.ABOVE_MODEL_CAP,
        message=(
            f"the budget falls once a full step of {budget} tokens takes more than "
            f"{phrases.ms(most_ms)} (now {phrases.ms(s.plant.full_ms(budget))}) or ITL is missed"
        ),
    )


def _effect(s: Situation, decision: Decision) -> Effect | None:
    """By the model as it is now, under the present load; None where a trial ends without one."""
    if decision.reason is Reason.CANARY_ROLLED_BACK:
        return None
    work = s.plant.workload
    if decision.knob is Knob.RUNNING_SEQS and decision.after is not None:
        rows = min(float(decision.after), work.rows_p95)
        figures: Inputs = {"decodeStepMs": s.plant.decode_ms(rows)}
    elif decision.knob is Knob.STEP_TIME:
        figures = {"stepTimeTargetMs": decision.after or 0}
        if s.model_usable:
            figures["capacityRps"] = s.capacity_at(s.cap_or_floor)[0]
    else:
        budget = decision.after or s.knobs.max_num_batched_tokens
        figures = {
            "fullStepMs": s.plant.full_ms(budget),
            "fullStepBeforeMs": s.plant.full_ms(s.knobs.max_num_batched_tokens),
        }
        if s.memory.trial is not None:
            figures["tryingPods"] = 1
        elif s.model_usable:
            figures["capacityRps"] = s.capacity_at(budget)[0]
    return Effect(due_s=s.now_s + JUDGED_AFTER_S, figures=figures)
