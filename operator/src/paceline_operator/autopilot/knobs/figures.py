"""The figures behind a decision about the live knobs, enough to compute it again by hand.

Units are in the names; the formulas they enter are those of `docs/autopilot.md`.
"""

from __future__ import annotations

from paceline_operator.autopilot.measurement.attainment import measure
from paceline_operator.autopilot.situation.figures import law_figures
from paceline_operator.autopilot.situation.situation import Situation
from paceline_operator.autopilot.vocabulary.decision import Inputs


def of_knobs(s: Situation) -> Inputs:
    """Behind a decision about the live knobs."""
    lately, budget, ladder = s.since_change, s.knobs.max_num_batched_tokens, s.ladder()
    work = s.plant.workload
    figures: Inputs = {
        "budget": budget,
        "runningSeqs": s.knobs.max_num_running_seqs,
        "stepTimeTargetMs": s.knobs.step_time_target_ms,
        "budgetCap": s.cap,
        "budgetFloor": ladder.floor,
        "budgetCeiling": ladder.ceiling,
        "budgetStep": ladder.step,
        "itlTargetMs": s.itl_target_ms,
        "ttftTargetMs": s.ttft_target_ms,
        "margin": s.margin,
        "marginLearned": s.memory.margin,
        "stepAtBudgetMs": s.plant.full_ms(budget),
        "uncertainty": s.plant.uncertainty(budget),
        "cause": s.cause.value,
        "rowsP95": work.rows_p95,
        "kvTokensP95": work.kv_p95,
        "contextTokens": work.context_or_usual,
        **law_figures(s.plant.prefill.law, "prefill"),
        **law_figures(s.plant.decode.law, "decode"),
        "provenBudget": s.memory.proven_budget,
        "trialBudget": s.memory.trial.budget if s.memory.trial is not None else None,
        "waitingTokens": round(s.waiting.tokens),
        "forecastRps": s.demand.forecast_rps,
        "servingPods": len(s.fleet.serving),
        "windowS": lately.length_s,
    }
    for objective in s.policy.objectives:
        figures[f"attainment.{objective.name}"] = measure(objective, lately).attainment
    return figures
