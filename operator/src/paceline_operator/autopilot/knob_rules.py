"""The knob loop's rules, in order: the first that has a wish wins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from paceline_operator.api.v1alpha1 import SloMetric
from paceline_operator.autopilot import phrases
from paceline_operator.autopilot.arbitration import BudgetMove, Cause
from paceline_operator.autopilot.capacity import alone_ttft_ms, steady_state
from paceline_operator.autopilot.decision import Knob, Reason
from paceline_operator.autopilot.fleet import DataClass, Tunables
from paceline_operator.autopilot.memory import Memory
from paceline_operator.autopilot.move import Move
from paceline_operator.autopilot.policy import budget_floor
from paceline_operator.autopilot.situation import RAISE_FACTOR, Situation

DEAD_BAND = 0.10
CUT_FACTOR = 0.75
LOWER_COOLDOWN_S = 10.0
RAISE_COOLDOWN_S = 10.0
UNPROVEN_COOLDOWN_S = 30.0
RAISE_AFTER_LOWER_S = 30.0
MOST_MARGIN = 0.40
LATE_SHARE = 0.5
PRESSURE_SHARE = 0.9
CERTAIN_SDS = 2.0

Rule = Callable[[Situation], Move | None]


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
    return _move(s, budget, Reason.OUTSIDE_LIMITS, message, seqs=seqs)


def blind(s: Situation) -> Move | None:
    """Holds where there is nothing to go by."""
    if not s.fleet.serving:
        return _hold(s, Reason.NO_PODS, "No pod serves yet; the live knobs stay.")
    if s.data is DataClass.ABSENT:
        return _hold(s, Reason.DATA_ABSENT, "No pod reports metrics; the live knobs stay.")
    if s.data is DataClass.STALE:
        return _hold(s, Reason.DATA_STALE, "Most metrics are too old to act on; holding.")
    if not s.policy.objectives:
        return _hold(s, Reason.NO_OBJECTIVE, "No objective is set: nothing to tune for.")
    if not s.has_traffic:
        return _hold(s, Reason.NO_TRAFFIC, "No requests in the last minute; the knobs stay.")
    return None


def squeeze(s: Situation) -> Move | None:
    """Decode-bound: fewer sequences at once now, and a replica is asked for."""
    target = s.itl_target_ms
    if s.cause is not Cause.DECODE or target is None:
        return None
    now = s.knobs.max_num_running_seqs
    allowed_ms = (1 - s.margin) * target
    fitting = (r for r in range(now - 1, 0, -1) if s.plant.decode_ms(r) <= allowed_ms)
    seqs = max(next(fitting, 1), now // 2, 1)
    if seqs >= now:
        return _hold(s, Reason.ITL_DECODE_BOUND, _decode_text(s) + " One sequence is the least.")
    memory = replace(
        s.memory,
        squeezed_seqs=s.memory.squeezed_seqs or now,
        squeezed_replicas=s.memory.squeezed_replicas or len(s.fleet.serving),
    )
    message = f"{_decode_text(s)} Running sequences {now} -> {seqs} until a replica helps."
    return _seqs_move(s, seqs, Reason.ITL_DECODE_BOUND, message, memory)


def above_cap(s: Situation) -> Move | None:
    """The budget breaks the ITL target by the model: down to the cap at once."""
    now, cap = s.knobs.max_num_batched_tokens, s.cap_or_floor
    if s.itl_target_ms is None or cap >= now:
        return None
    if not (s.model_trusted or (s.model_usable and _surely_breaks(s, now))):
        return None
    if now - cap < DEAD_BAND * now and not s.itl_violated:
        return None
    reason = Reason.ITL_PREFILL_BOUND if s.itl_violated else Reason.ABOVE_MODEL_CAP
    guard = Reason.AT_FLOOR if cap == s.ladder().floor else None
    message = (
        f"Budget {now} -> {cap}: a full step of {now} tokens takes {_step(s, now)} by the model, "
        f"the ITL target is {phrases.ms(s.itl_target_ms)}; {cap} tokens take {_step(s, cap)}."
    )
    return _move(s, cap, reason, message, guard=guard)


def itl_feedback(s: Situation) -> Move | None:
    """ITL is missed below the model's cap: cut, and let the margin remember it."""
    target, now = s.itl_target_ms, s.knobs.max_num_batched_tokens
    if target is None or s.cause is Cause.NONE:
        return None
    if s.cause is Cause.UNKNOWN:
        text = "ITL is missed, but no kind of engine step explains it; the budget would not help."
        return _hold(s, Reason.ITL_UNEXPLAINED, text)
    budget = s.ladder().down(CUT_FACTOR * now)
    if budget >= now:
        text = "ITL is missed at the smallest budget; nothing is left to cut."
        return _hold(s, Reason.AT_FLOOR, text)
    if s.now_s - s.memory.lowered_at_s < 2 * LOWER_COOLDOWN_S:
        return _hold(s, Reason.COOLDOWN, "The budget was just lowered; waiting for its effect.")
    learned = 1 - s.plant.full_ms(budget) / target
    margin = min(MOST_MARGIN, max(s.memory.margin, learned))
    message = f"Budget {now} -> {budget}: ITL is missed in steps with prompt tokens."
    memory = replace(s.memory, margin=margin)
    return _move(s, budget, Reason.ITL_PREFILL_BOUND, message, memory=memory)


def restore(s: Situation) -> Move | None:
    """Capacity has come or demand has gone: the squeeze ends."""
    wanted = s.memory.squeezed_seqs
    if wanted is None:
        return None
    if s.now_s - s.memory.lowered_at_s < RAISE_AFTER_LOWER_S:
        return None
    wanted = min(wanted, s.seqs_ceiling)
    came = len(s.fleet.serving) > s.memory.squeezed_replicas
    if not (came or _decode_fits(s)):
        return None
    memory = replace(s.memory, squeezed_seqs=None, squeezed_replicas=0)
    cause = "more replicas serve" if came else "demand has fallen"
    message = f"Running sequences back to {wanted}: {cause}."
    return _seqs_move(s, wanted, Reason.CAPACITY_ARRIVED, message, memory)


def raise_budget(s: Situation) -> Move | None:
    """Below the cap and pressed for first tokens: up, no faster than steps have proven."""
    now, cap = s.knobs.max_num_batched_tokens, s.cap_or_floor
    pressure = ttft_pressure(s)
    if pressure is None or s.stance.budget not in (BudgetMove.ANY, BudgetMove.RAISE):
        return None
    reason, why = pressure
    if cap < now and not s.model_trusted:
        return _hold(s, Reason.MODEL_LEARNING, f"{why} The step-time model is still learning.")
    if cap - now < max(s.ladder().step, DEAD_BAND * now) and cap < s.ladder().ceiling:
        text = f"{why} The budget of {now} already is what the ITL target allows."
        return _hold(s, Reason.AT_MODEL_CAP, text)
    if now >= s.ladder().ceiling:
        return _hold(s, Reason.AT_CEILING, f"{why} The budget is at its ceiling of {now}.")
    waiting = _raise_forbidden(s)
    if waiting is not None:
        return waiting
    proven = max(s.ladder().next_up(now), s.ladder().down(RAISE_FACTOR * s.memory.proven_budget))
    budget = s.ladder().down(min(cap, proven))
    if budget <= now:
        return _hold(s, Reason.DEAD_BAND, f"{why} The next allowed budget is too near to {now}.")
    guard = Reason.AT_MODEL_CAP if budget == cap else Reason.DEAD_BAND
    message = f"Budget {now} -> {budget}: {why} A full step then takes {_step(s, budget)}."
    return _move(s, budget, reason, message, guard=guard if budget == cap else None)


def content(s: Situation) -> Move:
    """Nothing is wanted."""
    if s.memory.squeezed_seqs is not None:
        text = "Running sequences stay squeezed until a replica helps."
        return _hold(s, Reason.KNOB_SQUEEZED, text)
    now = s.knobs.max_num_batched_tokens
    return _hold(s, Reason.OBJECTIVES_MET, f"No pressure on either objective; budget stays {now}.")


RULES: tuple[Rule, ...] = (
    outside_limits,
    blind,
    squeeze,
    above_cap,
    itl_feedback,
    restore,
    raise_budget,
    content,
)


def ttft_pressure(s: Situation) -> tuple[Reason, str] | None:
    """Why a larger budget would help first tokens now, None where it would not."""
    target = s.ttft_target_ms
    if target is None:
        return None
    if s.ttft_violated:
        return Reason.TTFT_PRESSURE, "TTFT is missed."
    pods = max(1, len(s.fleet.serving))
    now = s.knobs.max_num_batched_tokens
    if not s.model_usable:
        return None
    state = steady_state(s.plant, s.terms(now), s.demand.forecast_rps / pods)
    wait_ms = s.waiting_tokens / pods / max(1e-6, state.prefill_tokens_per_ms)
    if wait_ms > LATE_SHARE * target:
        return Reason.TTFT_PRESSURE, f"Waiting prompts need {phrases.ms(wait_ms)} to start."
    holds = s.capacity_at(now)[0]
    if s.demand.forecast_rps > PRESSURE_SHARE * holds * pods and s.demand.forecast_rps > 0:
        text = (
            f"{phrases.rps(s.demand.forecast_rps)} are expected, {pods} x {phrases.rps(holds)} fit."
        )
        return Reason.DEMAND_EXPECTED, text
    return None


def _raise_forbidden(s: Situation) -> Move | None:
    if s.policy.of_metric(SloMetric.ITL, SloMetric.TPOT) and not s.model_trusted:
        text = "The step-time model is still learning; a raise waits for it."
        return _hold(s, Reason.MODEL_LEARNING, text)
    if s.fleet.rolling_out:
        return _hold(s, Reason.ROLLOUT, "Pods are being replaced; a raise waits.")
    since_raise = s.now_s - s.memory.raised_at_s
    proven = s.memory.proven_budget >= s.knobs.max_num_batched_tokens
    wait_s = RAISE_COOLDOWN_S if proven else UNPROVEN_COOLDOWN_S
    if since_raise < wait_s - 0.5:
        return _hold(s, Reason.COOLDOWN, "The budget was just raised; waiting for its effect.")
    if s.now_s - s.memory.lowered_at_s < RAISE_AFTER_LOWER_S:
        return _hold(s, Reason.COOLDOWN, "The budget was just lowered; a raise waits.")
    return None


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
    idle = not any(p.waiting for p in s.fleet.serving)
    return idle and s.plant.decode_ms(max(1.0, state.rows)) <= (1 - s.margin) * target


def _decode_text(s: Situation) -> str:
    seqs = s.knobs.max_num_running_seqs
    return (
        f"Steps that only decode already exceed the ITL target of "
        f"{phrases.ms(s.itl_target_ms or 0.0)} with up to {seqs} sequences."
    )


def _step(s: Situation, budget: int) -> str:
    return phrases.ms(s.plant.full_ms(budget))


def idle_ttft_text(s: Situation) -> str:
    """First token of a long prompt on an idle replica, in words."""
    return phrases.ms(alone_ttft_ms(s.plant, s.terms(s.coming_budget)))


def _hold(s: Situation, reason: Reason, message: str) -> Move:
    now = s.knobs.max_num_batched_tokens
    return Move(knob=Knob.BUDGET, before=now, after=now, reason=reason, message=message)


def _move(
    s: Situation,
    budget: int,
    reason: Reason,
    message: str,
    *,
    seqs: int | None = None,
    guard: Reason | None = None,
    memory: Memory | None = None,
) -> Move:
    return Move(
        knob=Knob.BUDGET,
        before=s.knobs.max_num_batched_tokens,
        after=budget,
        reason=reason,
        guard=guard,
        message=message,
        tunables=Tunables(
            max_num_batched_tokens=budget,
            max_num_running_seqs=s.knobs.max_num_running_seqs if seqs is None else seqs,
        ),
        memory=memory,
    )


def _seqs_move(s: Situation, seqs: int, reason: Reason, message: str, memory: Memory) -> Move:
    now = s.knobs.max_num_batched_tokens
    budget = min(s.ladder().ceiling, max(now, budget_floor(seqs, s.ladder().step)))
    return Move(
        knob=Knob.RUNNING_SEQS,
        before=s.knobs.max_num_running_seqs,
        after=seqs,
        reason=reason,
        message=message,
        tunables=Tunables(max_num_batched_tokens=budget, max_num_running_seqs=seqs),
        memory=memory,
    )
