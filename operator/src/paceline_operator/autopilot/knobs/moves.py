"""How the knob loop's rules say what they want."""

from __future__ import annotations

from dataclasses import replace

from paceline_operator.autopilot.situation.situation import Situation
from paceline_operator.autopilot.vocabulary import phrases
from paceline_operator.autopilot.vocabulary.decision import Knob, Reason
from paceline_operator.autopilot.vocabulary.memory import Memory
from paceline_operator.autopilot.vocabulary.move import Move
from paceline_operator.autopilot.vocabulary.policy import budget_floor


def hold(s: Situation, reason: Reason, message: str) -> Move:
    """The budget stays, or the step time where engines keep one, for this reason."""
    if s.knobs.step_time_target_ms is not None:
        return step_time_move(s, s.knobs.step_time_target_ms, reason, message)
    now = s.knobs.max_num_batched_tokens
    return Move(knob=Knob.BUDGET, before=now, after=now, reason=reason, message=message)


def step_time_move(s: Situation, target_ms: float | None, reason: Reason, message: str) -> Move:
    """Another step time for engines to keep, or none; the caller says which knobs go with it."""
    return Move(
        knob=Knob.STEP_TIME,
        before=round(s.knobs.step_time_target_ms or 0.0),
        after=round(target_ms or 0.0),
        reason=reason,
        message=message,
    )


def budget_move(
    s: Situation,
    budget: int,
    reason: Reason,
    message: str,
    *,
    seqs: int | None = None,
    guard: Reason | None = None,
    memory: Memory | None = None,
) -> Move:
    """Another budget, and another cap of running sequences where given."""
    return Move(
        knob=Knob.BUDGET,
        before=s.knobs.max_num_batched_tokens,
        after=budget,
        reason=reason,
        guard=guard,
        message=message,
        tunables=replace(
            s.knobs,
            max_num_batched_tokens=budget,
            max_num_running_seqs=s.knobs.max_num_running_seqs if seqs is None else seqs,
        ),
        memory=memory,
    )


def seqs_move(
    s: Situation, seqs: int, reason: Reason, message: str, memory: Memory | None = None
) -> Move:
    """Another cap of running sequences; the budget follows its floor."""
    now = s.knobs.max_num_batched_tokens
    budget = min(s.ladder().ceiling, max(now, budget_floor(seqs, s.ladder().step)))
    return Move(
        knob=Knob.RUNNING_SEQS,
        before=s.knobs.max_num_running_seqs,
        after=seqs,
        reason=reason,
        message=message,
        tunables=replace(s.knobs, max_num_batched_tokens=budget, max_num_running_seqs=seqs),
        memory=memory,
    )


def step_text(s: Situation, budget: int) -> str:
    """Predicted time of a full step, in words."""
    return phrases.ms(s.plant.full_ms(budget))
