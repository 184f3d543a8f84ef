"""The knob loop's rules, in order: the first that has a wish wins."""

from __future__ import annotations

from collections.abc import Callable

from paceline_operator.autopilot.knobs.itl_rules import (
    above_cap,
    itl_feedback,
    paced_feedback,
    restore,
    squeeze,
)
from paceline_operator.autopilot.knobs.moves import budget_move, hold, seqs_move
from paceline_operator.autopilot.knobs.pacing_rules import repace
from paceline_operator.autopilot.knobs.probe_rules import probe
from paceline_operator.autopilot.knobs.reversal import reversal
from paceline_operator.autopilot.knobs.trial_rules import judge_trial
from paceline_operator.autopilot.knobs.ttft_rules import paced_pressure, raise_budget
from paceline_operator.autopilot.situation.situation import Situation
from paceline_operator.autopilot.vocabulary import phrases
from paceline_operator.autopilot.vocabulary.decision import Reason
from paceline_operator.autopilot.vocabulary.fleet import DataClass
from paceline_operator.autopilot.vocabulary.move import Move

Rule = Callable[[Situation], Move | None]


def first_wish(s: Situation) -> Move:
    """What the loop wants, a hold included."""
    wishes = (rule(s) for rule in (RULES if s.step_time_target_ms is None else PACED_RULES))
    return next((wish for wish in wishes if wish is not None), None) or content(s)


def outside_limits(s: Situation) -> Move | None:
    """Brings knobs back inside what spec and engines allow, whatever else holds."""
    seqs = min(s.knobs.max_num_running_seqs, s.seqs_ceiling)
    ladder, now = s.ladder(seqs), s.knobs.max_num_batched_tokens
    if seqs == s.knobs.max_num_running_seqs and ladder.floor <= now <= ladder.ceiling:
        return None
    budget = ladder.down(now)
    message = (
        f"Brought the knobs inside the limits: budget {now} -> {budget} of "
        f"[{ladder.floor}, {ladder.ceiling}], running sequences at most {seqs}."
    )
    if budget == now:
        return seqs_move(s, seqs, Reason.OUTSIDE_LIMITS, message)
    return budget_move(s, budget, Reason.OUTSIDE_LIMITS, message, seqs=seqs)


def blind(s: Situation) -> Move | None:
    """Holds where there is nothing to go by."""
    if not s.fleet.serving:
        return hold(s, Reason.NO_PODS, "No pod serves yet; the live knobs stay.")
    if s.data is DataClass.ABSENT:
        return hold(s, Reason.DATA_ABSENT, "No pod reports metrics; the live knobs stay.")
    if s.data is DataClass.STALE:
        return hold(s, Reason.DATA_STALE, "Most metrics are too old to act on; holding.")
    if not s.policy.steering:
        missing = phrases.no_objective(len(s.policy.objectives))
        return hold(s, Reason.NO_OBJECTIVE, f"{missing}: nothing to tune for.")
    return None


def idle(s: Situation) -> Move | None:
    """Ends a squeeze that nothing needs any more, else holds, where nothing is asked."""
    if s.has_traffic:
        return None
    text = "No requests in the last minute; the knobs stay."
    return restore(s) or hold(s, Reason.NO_TRAFFIC, text)


def content(s: Situation) -> Move:
    """Nothing is wanted."""
    if s.memory.squeezed_seqs is not None:
        text = "Running sequences stay squeezed until a replica helps."
        return hold(s, Reason.KNOB_SQUEEZED, text)
    target_ms = s.knobs.step_time_target_ms
    if target_ms is not None:
        text = f"Engines size each step for {phrases.ms(target_ms)} by themselves."
        return hold(s, Reason.OBJECTIVES_MET, text)
    now = s.knobs.max_num_batched_tokens
    return hold(s, Reason.OBJECTIVES_MET, f"No pressure on either objective; budget stays {now}.")


RULES: tuple[Rule, ...] = (
    outside_limits,
    reversal,
    repace,
    blind,
    judge_trial,
    idle,
    squeeze,
    above_cap,
    itl_feedback,
    restore,
    raise_budget,
    probe,
)
PACED_RULES: tuple[Rule, ...] = (
    outside_limits,
    reversal,
    repace,
    blind,
    judge_trial,
    idle,
    squeeze,
    restore,
    paced_feedback,
    paced_pressure,
)
"""Where engines size steps themselves, nothing is left to do about the budget."""
