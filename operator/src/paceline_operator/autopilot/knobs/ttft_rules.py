"""Rules that help first tokens: a larger budget, no faster than steps have proven."""

from __future__ import annotations

from paceline_operator.api.v1alpha1 import SloMetric
from paceline_operator.autopilot.knobs.moves import budget_move, hold, step_text
from paceline_operator.autopilot.knobs.trial_rules import failed, trial_move
from paceline_operator.autopilot.plant.capacity import steady_state
from paceline_operator.autopilot.situation.situation import RAISE_FACTOR, Situation
from paceline_operator.autopilot.vocabulary import phrases
from paceline_operator.autopilot.vocabulary.arbitration import BudgetMove
from paceline_operator.autopilot.vocabulary.decision import Reason
from paceline_operator.autopilot.vocabulary.move import Move

DEAD_BAND = 0.10
RAISE_COOLDOWN_S = 10.0
UNPROVEN_COOLDOWN_S = 30.0
RAISE_AFTER_LOWER_S = 30.0
REFUSED_LASTS_S = 1800.0
LATE_SHARE = 0.5
PRESSURE_SHARE = 0.9


def raise_budget(s: Situation) -> Move | None:
    """Below the cap and pressed for first tokens: up."""
    pressure = ttft_pressure(s)
    if pressure is None or s.stance.budget not in (BudgetMove.ANY, BudgetMove.RAISE):
        return None
    reason, why = pressure
    stopped = _no_room(s, why) or _not_now(s)
    if stopped is not None:
        return stopped
    now, cap, ladder = s.knobs.max_num_batched_tokens, s.cap_or_floor, s.ladder()
    if _refused(s, ladder.next_up(now)):
        text = f"The budget stays {now}: {s.memory.refused_budget} tokens broke the ITL target."
        return hold(s, Reason.OVERLOADED, f"{_overload_text(s)}. {text}")
    proven = ladder.down(s.memory.proven_budget)
    reach = max(ladder.next_up(now), ladder.down(RAISE_FACTOR * s.memory.proven_budget))
    budget = ladder.down(min(cap, reach))
    if budget <= now:
        return hold(s, Reason.DEAD_BAND, f"{why} The next allowed budget is too near to {now}.")
    if s.itl_target_ms is not None and budget > proven:
        if proven <= now:
            return _tried(s, budget, reason, why)
        budget = min(budget, proven)  # so far without asking; beyond it one pod goes ahead
    message = f"Budget {now} -> {budget}: {why} A full step then takes {step_text(s, budget)}."
    guard = Reason.AT_MODEL_CAP if budget == cap else Reason.NOT_PROVEN
    return budget_move(s, budget, reason, message, guard=guard)


def paced_pressure(s: Situation) -> Move | None:
    """First tokens are late where engines size their steps: no live knob does more for them."""
    if not s.late:
        return None
    text = "First tokens or whole answers come too late; steps are as long as ITL allows already."
    return hold(s, Reason.TTFT_QUEUE, f"{text} Replicas answer that.")


def _tried(s: Situation, budget: int, reason: Reason, why: str) -> Move:
    """A budget at which no full steps were seen: on one pod, unless it has failed there."""
    if s.memory.trial is not None:
        text = f"{why} One pod tries a budget of {s.memory.trial.budget}; its steps decide."
        return hold(s, Reason.CANARY, text)
    while failed(s, budget):
        lower = s.ladder().down(min(budget, s.memory.failed_budget) - 1)
        if lower >= budget or lower <= s.knobs.max_num_batched_tokens:
            text = f"{why} Steps with {s.memory.failed_budget} tokens were too long on one pod."
            return hold(s, Reason.CANARY_ROLLED_BACK, text)
        budget = lower
    text = f"{why} No pod can try a larger budget now."
    return trial_move(s, budget, reason, why) or hold(s, Reason.DATA_STALE, text)


def _refused(s: Situation, budget: int) -> bool:
    lately = s.now_s - s.memory.refused_at_s < REFUSED_LASTS_S
    return lately and goes_back_to_refused(s, budget)


def goes_back_to_refused(s: Situation, budget: int) -> bool:
    """Whether a raise would only go back to what ITL has refused, with a queue either way."""
    return s.overload is not None and budget >= s.memory.refused_budget > 0


def _overload_text(s: Situation) -> str:
    offered, holds = s.overload or (0.0, 0.0)
    return phrases.overload(offered, len(s.fleet.serving), holds)


def _no_room(s: Situation, why: str) -> Move | None:
    now, cap, ladder = s.knobs.max_num_batched_tokens, s.cap_or_floor, s.ladder()
    if now >= ladder.ceiling:
        return hold(s, Reason.AT_CEILING, f"{why} The budget is at its ceiling of {now}.")
    if cap < now and not s.model_trusted:
        return hold(s, Reason.MODEL_LEARNING, f"{why} The step-time model is still learning.")
    if s.cap is None and s.model_trusted and now <= ladder.floor:
        text = f"{why} The smallest budget of {now} takes {step_text(s, now)} beside what decodes."
        return hold(s, Reason.AT_FLOOR, text)
    if cap - now < max(ladder.step, DEAD_BAND * now) and cap < ladder.ceiling:
        text = f"{why} The budget of {now} already is what the ITL target allows."
        return hold(s, Reason.AT_MODEL_CAP, text)
    return None


def ttft_pressure(s: Situation) -> tuple[Reason, str] | None:
    """Why a larger budget would help first tokens now, None where it would not."""
    if s.ttft_violated:
        return Reason.TTFT_PRESSURE, "First tokens, or whole answers, come too late."
    target = s.ttft_target_ms
    if target is None:
        return None
    pods = max(1, len(s.fleet.serving))
    now = s.knobs.max_num_batched_tokens
    if not s.model_usable:
        return None
    state = steady_state(s.plant, s.terms(now), s.demand.forecast_rps / pods)
    wait_ms = s.waiting.tokens / pods / max(1e-6, state.prefill_tokens_per_ms)
    if wait_ms > LATE_SHARE * target:
        return Reason.TTFT_PRESSURE, f"Waiting prompts need {phrases.ms(wait_ms)} to start."
    holds = s.capacity_at(now)[0]
    if s.demand.forecast_rps > PRESSURE_SHARE * holds * pods and s.demand.forecast_rps > 0:
        text = (
            f"{phrases.rps(s.demand.forecast_rps)} are expected, {pods} x {phrases.rps(holds)} fit."
        )
        return Reason.DEMAND_EXPECTED, text
    return None


def _not_now(s: Situation) -> Move | None:
    if s.policy.of_metric(SloMetric.ITL, SloMetric.TPOT) and not s.model_trusted:
        text = "The step-time model is still learning; a raise waits for it."
        return hold(s, Reason.MODEL_LEARNING, text)
    if s.fleet.rolling_out:
        return hold(s, Reason.ROLLOUT, "Pods are being replaced; a raise waits.")
    since_raise = s.now_s - s.memory.raised_at_s
    if since_raise < raise_wait_s(s) - 0.5:
        return hold(s, Reason.COOLDOWN, "The budget was just raised; waiting for its effect.")
    if s.now_s - s.memory.lowered_at_s < RAISE_AFTER_LOWER_S:
        return hold(s, Reason.COOLDOWN, "The budget was just lowered; a raise waits.")
    return None


def raise_wait_s(s: Situation) -> float:
    """How long a raise waits after the one before: longer where no steps have proven that one."""
    is_proven = s.memory.proven_budget >= s.knobs.max_num_batched_tokens
    return RAISE_COOLDOWN_S if is_proven else UNPROVEN_COOLDOWN_S
