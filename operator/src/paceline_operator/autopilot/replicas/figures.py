"""The figures behind a decision about replicas, enough to compute it again by hand.

Units are in the names; the formulas they enter are those of `docs/autopilot.md`.
"""

from __future__ import annotations

from paceline_operator.api.v1alpha1 import SloMetric
from paceline_operator.autopilot.demand.forecast import rates
from paceline_operator.autopilot.replicas.capacity_evidence import carried_rps
from paceline_operator.autopilot.replicas.limits import Limits
from paceline_operator.autopilot.replicas.need import Need
from paceline_operator.autopilot.replicas.pending import backlog_rps
from paceline_operator.autopilot.replicas.recommendation import down_window_s, peak
from paceline_operator.autopilot.situation.figures import law_figures
from paceline_operator.autopilot.situation.situation import Situation
from paceline_operator.autopilot.vocabulary.decision import Inputs
from paceline_operator.autopilot.vocabulary.memory import Memory


def of_replicas(s: Situation, found: Need | None, limits: Limits, memory: Memory) -> Inputs:
    """Behind a decision about replicas.

    Args:
        s: Situation it was made in.
        found: What demand asks for, None where it was not asked.
        limits: Limits in force.
        memory: With the newest recommendation.
    """
    figures: Inputs = {
        "replicas": s.fleet.desired_replicas,
        "servingPods": len(s.fleet.serving),
        "pendingPods": len(s.fleet.pending),
        "minReplicas": limits.lower,
        "maxReplicas": limits.upper,
        **_schedule(limits),
        "offeredRps": s.demand.now_rps,
        "forecastRps": s.demand.forecast_rps,
        "levelRps": s.demand.level_rps,
        "carriedRps": s.demand.carried_rps,
        "dispersion": s.demand.dispersion,
        "promptShare": s.prompt_share,
        **_rates(s),
        "waitingTokens": round(s.waiting.tokens),
        "waitingRequests": round(s.waiting.interactive),
        "coldStartS": s.cold_start_s,
        "usualStartS": s.usual_start_s,
        "downWindowS": down_window_s(s),
        "lackingReplicas": s.lacking,
        "peakReplicas": peak(memory),
        "capacityFactor": s.memory.capacity_factor,
        **_bursts(memory),
        **_requests(s),
    }
    if found is None:
        return figures
    return (
        figures
        | _capacity_terms(s)
        | {
            "capacityRps": found.capacity_rps,
            "modelReplicaRps": found.model_rps,
            "servingReplicaRps": s.capacity[0] if s.capacity else None,
            "provenReplicaRps": carried_rps(s),
            "capacityBound": found.bound.value if found.bound else None,
            "backlogRps": backlog_rps(s),
            "neededReplicas": found.wanted,
            "uncorrectedReplicas": found.uncorrected,
            "keptReplicas": found.keep,
            **({} if found.hit_share is None else {"prefixHitShare": found.hit_share}),
            **({} if found.late_times is None else {"lateTimes": found.late_times}),
        }
    )


def _bursts(memory: Memory) -> Inputs:
    """The surge that may be a short one, and how long short ones were; nothing while none is."""
    known = memory.bursts
    found = {"surgeSinceS": known.since_s, "burstLastedS": known.lasted_s}
    return {name: value for name, value in found.items() if value}


def _schedule(limits: Limits) -> Inputs:
    """The schedule that raises the minimum, where one does."""
    return {} if limits.scheduled is None else {"schedule": limits.scheduled.schedule}


def _rates(s: Situation) -> Inputs:
    found = rates(s.fleet, s.plant.workload, s.prompt_share)
    return {f"offeredRps{span_s:.0f}s": rps for span_s, rps in found.items()}


def _requests(s: Situation) -> Inputs:
    work = s.plant.workload
    return {
        "promptTokensMean": work.prompt_mean,
        "promptTokensP50": work.prompt_p50,
        "promptTokensP95": work.prompt_p95,
        "promptTokensP99": work.prompt_p99,
        "promptVariation2": work.prompt_cv2,
        "outputTokensMean": work.output_mean,
        "prefixHitShare": work.hit_rate,
    }


def _capacity_terms(s: Situation) -> Inputs:
    """What the capacity of one replica was computed under."""
    budget = s.capacity_budget
    terms, (ttft_ms, itl_ms) = s.terms(budget or 0), s.attainable
    return {
        "capacityBudget": budget,
        "runningSeqs": terms.running_seqs,
        "ttftTargetMs": ttft_ms,
        "ttftShare": terms.ttft_share if s.policy.of_metric(SloMetric.TTFT) else None,
        "itlTargetMs": itl_ms,
        "margin": terms.margin,
        "kvCapacityTokens": terms.kv_capacity_tokens,
        "contextTokens": s.plant.workload.context_or_usual,
        **law_figures(s.plant.prefill.law, "prefill"),
        **law_figures(s.plant.decode.law, "decode"),
    }
