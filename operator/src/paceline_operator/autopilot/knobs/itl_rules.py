"""Rules that keep ITL: by the model first, by measurement where it is wrong."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from paceline_operator.autopilot.knobs import margin
from paceline_operator.autopilot.knobs.moves import budget_move, hold, seqs_move, step_text
from paceline_operator.autopilot.plant.capacity import itl_limit_ms, steady_state
from paceline_operator.autopilot.situation.situation import Situation
from paceline_operator.autopilot.vocabulary import phrases
from paceline_operator.autopilot.vocabulary.arbitration import BudgetMove, Cause
from paceline_operator.autopilot.vocabulary.decision import Reason
from paceline_operator.autopilot.vocabulary.move import Move

CUT_FACTOR = 0.75
CUT_COOLDOWN_S = 20.0
SQUEEZE_LASTS_S = 30.0
MARGIN_PER_CUT = 0.05
CERTAIN_SDS = 2.0


def squeeze(s: Situation) -> Move | None:
    """Decode-bound: fewer sequences at once now, and a replica is asked for."""
    if not s.stance.squeeze or s.itl_target_ms is None:
        return None
    now = s.knobs.max_num_running_seqs
    running = min(now, ceil(s.plant.workload.rows_p95))
    seqs = _helping(s, running)
    if seqs is None:
        text = " By the model no smaller number of sequences would hold it."
        return hold(s, Reason.INFEASIBLE, _decode_text(s) + text)
    if not (s.plant.decode_trusted_at(seqs) and s.plant.decode_trusted_at(running)):
        text = " The step-time model is still learning; sequences are not squeezed by it."
        return hold(s, Reason.MODEL_LEARNING, _decode_text(s) + text)
    seqs = max(seqs, running // 2, 1)
    if seqs >= now:
        return hold(s, Reason.ITL_DECODE_BOUND, _decode_text(s) + " Nothing is left to squeeze.")
    if _still_ending(s):
        text = "Running sequences were just lowered; the older ones have to end first."
        return hold(s, Reason.COOLDOWN, text)
    memory = replace(
        s.memory,
        squeezed_seqs=s.memory.squeezed_seqs or now,
        squeezed_replicas=s.memory.squeezed_replicas or len(s.fleet.serving),
    )
    message = f"{_decode_text(s)} Running sequences {now} -> {seqs} until a replica helps."
    return seqs_move(s, seqs, Reason.ITL_DECODE_BOUND, message, memory)


def _helping(s: Situation, running: int) -> int | None:
    """Most sequences, fewer than run now, that decode within the target; None for none."""
    if s.plant.decode_ms(1.0) > (s.itl_target_ms or 0.0):
        return None
    allowed_ms = itl_limit_ms(s.plant, s.terms(s.knobs.max_num_batched_tokens))
    fitting = (r for r in range(running - 1, 0, -1) if s.plant.decode_ms(r) <= allowed_ms)
    return next(fitting, None)


def _still_ending(s: Situation) -> bool:
    """Whether the last squeeze cannot have had its effect yet."""
    if s.memory.squeezed_seqs is None:
        return False
    most = s.knobs.max_num_running_seqs
    since_s = s.now_s - s.memory.lowered_at_s
    return since_s < CUT_COOLDOWN_S or any(p.running > most for p in s.fleet.serving)


def above_cap(s: Situation) -> Move | None:
    """The budget breaks the ITL target by the model: down to the cap at once."""
    now, cap = s.knobs.max_num_batched_tokens, s.cap_or_floor
    if s.itl_target_ms is None or cap >= now:
        return None
    if s.cap is None and not (s.itl_violated and s.stance.budget is BudgetMove.LOWER):
        return None  # not even the floor fits: only measured trouble is worth the throughput
    if not (s.model_trusted or (s.model_usable and _surely_breaks(s, now))):
        return None
    if not s.itl_violated and _within_half_margin(s, now):
        return None
    reason = Reason.ITL_PREFILL_BOUND if s.itl_violated else Reason.ABOVE_MODEL_CAP
    guard = Reason.AT_FLOOR if cap == s.ladder().floor else None
    message = (
        f"Budget {now} -> {cap}: by the model a full step of {now} tokens takes "
        f"{step_text(s, now)}, the ITL target is {phrases.ms(s.itl_target_ms)}; {cap} tokens take "
        f"{step_text(s, cap)}."
    )
    return budget_move(s, cap, reason, message, guard=guard)


def _within_half_margin(s: Situation, budget: int) -> bool:
    """Whether full steps only use up some of the margin: where the cap wavers, so would the budget.

    A raise goes to the cap at most, a cut waits until half of what is kept free is gone.
    """
    allowed_ms = (1 - s.margin / 2) * (s.itl_target_ms or 0.0)
    return s.plant.full_ms(budget) <= allowed_ms


def itl_feedback(s: Situation) -> Move | None:
    """ITL is missed below the model's cap: cut, and let the margin remember it."""
    target, now = s.itl_target_ms, s.knobs.max_num_batched_tokens
    if target is None or s.cause is Cause.NONE:
        return None
    beside = _beside_the_budget(s)
    if beside is not None:
        return beside
    budget = s.ladder().down(CUT_FACTOR * now)
    if budget >= now:
        text = "ITL is missed at the smallest budget; nothing is left to cut."
        return hold(s, Reason.AT_FLOOR, text)
    if s.now_s - s.memory.lowered_at_s < CUT_COOLDOWN_S:
        return hold(s, Reason.COOLDOWN, "The budget was just lowered; waiting for its effect.")
    learned = 1 - s.plant.full_ms(budget) / target
    most = min(margin.MOST, s.memory.margin + MARGIN_PER_CUT)
    kept = min(most, max(s.memory.margin, learned))
    message = f"Budget {now} -> {budget}: ITL is missed in steps with prompt tokens."
    memory = replace(s.memory, margin=kept)
    return budget_move(s, budget, Reason.ITL_PREFILL_BOUND, message, memory=memory)


def paced_feedback(s: Situation) -> Move | None:
    """ITL is missed where engines size their steps: the step time follows the margin, or nothing.

    See `margin.trimmed`: the margin grows with what is missed.
    """
    if s.itl_target_ms is None or s.cause is Cause.NONE:
        return None
    beside = _beside_the_budget(s)
    if beside is not None:
        return beside
    if margin.is_useless(s):
        text = "ITL is missed, and shorter steps have brought nothing; no live knob would help."
        return hold(s, Reason.ITL_UNEXPLAINED, text)
    text = "ITL is missed in steps with prompt tokens; their time is shortened step by step."
    return hold(s, Reason.ITL_PREFILL_BOUND, text)


def _beside_the_budget(s: Situation) -> Move | None:
    """A hold where smaller steps would not help, None where they would."""
    if s.cause is Cause.UNKNOWN:
        text = "ITL is missed, but no kind of engine step explains it; no live knob would help."
        return hold(s, Reason.ITL_UNEXPLAINED, text)
    if s.stance.budget is not BudgetMove.LOWER:
        return hold(s, Reason.ITL_DECODE_BOUND, _decode_text(s) + " Only replicas can help.")
    tries = s.memory.trial.uid if s.memory.trial is not None else ""
    unheeded = [pod.name for pod in s.fleet.unheeded if pod.uid != tries]
    if unheeded:
        names = ", ".join(unheeded)
        return hold(s, Reason.NOT_TAKEN, f"ITL is missed, but larger budgets are used by {names}.")
    return None


def restore(s: Situation) -> Move | None:
    """Capacity has come or demand has gone: the squeeze ends."""
    wanted = s.memory.squeezed_seqs
    if wanted is None:
        return None
    if s.now_s - s.memory.lowered_at_s < SQUEEZE_LASTS_S:
        return None
    came = len(s.fleet.serving) > s.memory.squeezed_replicas
    if not (came or not s.has_traffic or _decode_fits(s)):
        return None
    cause = "more replicas serve" if came else "demand has fallen"
    return restored(s, wanted, cause, takes_back=True)


def restored(s: Situation, wanted: int, cause: str, *, takes_back: bool = False) -> Move:
    """As many sequences as before the squeeze, where engines still take them."""
    wanted = min(wanted, s.seqs_ceiling)
    memory = replace(s.memory, squeezed_seqs=None, squeezed_replicas=0)
    message = f"Running sequences back to {wanted}: {cause}."
    move = seqs_move(s, wanted, Reason.CAPACITY_ARRIVED, message, memory)
    return replace(move, takes_back=takes_back)


def _surely_breaks(s: Situation, budget: int) -> bool:
    """Whether ITL is missed, or full steps are too long even if the model errs a lot."""
    least = 1 - CERTAIN_SDS * s.plant.uncertainty(budget)
    target = s.itl_target_ms or float("inf")
    return s.itl_violated or least * s.plant.full_ms(budget) > target


def _decode_fits(s: Situation) -> bool:
    target, pods = s.itl_target_ms, max(1, len(s.fleet.serving))
    if target is None:
        return True
    budget = s.knobs.max_num_batched_tokens
    state = steady_state(s.plant, s.terms(budget), s.demand.forecast_rps / pods)
    idle = not any(p.waiting > p.batch_waiting for p in s.fleet.serving)
    return idle and s.plant.decode_ms(max(1.0, state.rows)) <= (1 - s.margin) * target


def _decode_text(s: Situation) -> str:
    seqs = s.knobs.max_num_running_seqs
    return (
        f"Steps that only decode already exceed the ITL target of "
        f"{phrases.ms(s.itl_target_ms or 0.0)} with up to {seqs} sequences."
    )
