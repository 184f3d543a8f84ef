"""The entry of the control law: one call per tick, pure, replayable."""

from __future__ import annotations

from dataclasses import replace

from paceline_operator.autopilot import feasibility, hindsight
from paceline_operator.autopilot.knobs import loop as knob_loop
from paceline_operator.autopilot.knobs.loop import KNOB_EVERY_S
from paceline_operator.autopilot.learning import learned
from paceline_operator.autopilot.measurement import error_budget
from paceline_operator.autopilot.measurement.attainment import measure_lately
from paceline_operator.autopilot.notices import noticed, slow_pods
from paceline_operator.autopilot.replicas import limits as replica_limits
from paceline_operator.autopilot.replicas import loop as replica_loop
from paceline_operator.autopilot.replicas.loop import REPLICA_EVERY_S
from paceline_operator.autopilot.situation.situation import Situation, understand
from paceline_operator.autopilot.vocabulary import timetable
from paceline_operator.autopilot.vocabulary.decision import (
    ActionItem,
    Decision,
    ModelEstimate,
    SetTunables,
    Tick,
)
from paceline_operator.autopilot.vocabulary.fleet import FleetObservation
from paceline_operator.autopilot.vocabulary.memory import Memory
from paceline_operator.autopilot.vocabulary.move import Outcome
from paceline_operator.autopilot.vocabulary.policy import Policy

EARLY_S = 0.5
SURGE_EVERY_S = 5.0


def step(policy: Policy, fleet: FleetObservation, memory: Memory, now_s: float) -> Tick:
    """Runs the loops that are due and explains the outcome.

    The knob loop comes first: the replica loop then sees the knobs it has chosen.

    Args:
        policy: Objectives, autonomy and limits.
        fleet: What is known of the fleet.
        memory: Of the last call; a new one for a new fleet.
        now_s: The operator's clock.
    """
    before, memory = memory, learned(policy, fleet, memory, now_s)
    situation = understand(policy, fleet, memory, now_s)
    judged = feasibility.judge(situation)
    knobs = _knob_pass(situation)
    after = _with_knobs(situation, knobs)
    feasible = judged.feasible is not False
    replicas = _replica_pass(after, feasible=feasible)
    decisions, actions = _collected(knobs, replicas)
    final = replicas.memory if replicas is not None else after.memory
    observed, final = hindsight.look_back(situation, final, decisions)
    return Tick(
        decisions=decisions,
        actions=actions,
        memory=final,
        slo=tuple(
            error_budget.burning(measure_lately(o, fleet), o, memory, now_s)
            for o in policy.objectives
        ),
        estimate=_estimate(after),
        feasibility=feasibility.within_limits(after, judged),
        scaling_limit=replica_loop.limit(after, feasible=feasible),
        timetable=timetable.timetable(policy, now_s, replica_limits.ahead_s(after)),
        data=situation.data,
        notices=noticed(before, situation),
        next_due_s=min(due_s(final, surging=True)),
        observed=observed,
    )


def due_s(memory: Memory, *, surging: bool) -> tuple[float, float]:
    """When the knob loop and the replica loop are due next.

    Whether demand surges shows only to who looks: who asks less often than engines are measured
    has to ask as if it did.

    Args:
        memory: Of the last call.
        surging: Whether demand surges.
    """
    every_s = SURGE_EVERY_S if surging else REPLICA_EVERY_S
    return memory.knob_at_s + KNOB_EVERY_S, memory.replica_at_s + every_s


def _is_due(s: Situation) -> tuple[bool, bool]:
    """Of both loops; one that has never run is."""
    knobs_s, replicas_s = due_s(s.memory, surging=s.demand.surging)
    soon_s = s.now_s + _early_s(s)
    return (
        not s.memory.knob_at_s or soon_s >= knobs_s,
        not s.memory.replica_at_s or soon_s >= replicas_s,
    )


def _early_s(s: Situation) -> float:
    """By how much a loop may be early: where the next reading would be later than that is too late.

    Else a loop of 15 s would run every 28 s with readings that are 14 s apart.
    """
    newest_s = s.fleet.slices[-1].length_s if s.fleet.slices else 0.0
    return max(EARLY_S, min(newest_s, REPLICA_EVERY_S) / 2)


def _knob_pass(s: Situation) -> Outcome | None:
    return knob_loop.run(s) if _is_due(s)[0] else None


def _with_knobs(s: Situation, knobs: Outcome | None) -> Situation:
    if knobs is None:
        return s
    tunables = s.fleet.desired_tunables
    for action in knobs.actions:
        if isinstance(action, SetTunables):
            tunables = action.tunables
    return understand(s.policy, replace(s.fleet, desired_tunables=tunables), knobs.memory, s.now_s)


def _replica_pass(s: Situation, *, feasible: bool) -> Outcome | None:
    return replica_loop.run(s, feasible=feasible) if _is_due(s)[1] else None


def _collected(
    *outcomes: Outcome | None,
) -> tuple[tuple[Decision, ...], tuple[ActionItem, ...]]:
    ran = [outcome for outcome in outcomes if outcome is not None]
    decisions = tuple(d for outcome in ran for d in outcome.decisions)
    return decisions, tuple(a for outcome in ran for a in outcome.actions)


def _estimate(s: Situation) -> ModelEstimate | None:
    plant = s.plant
    if not plant.prefill.steps and not plant.decode.steps:
        return None
    law, budget = plant.prefill.law, s.knobs.max_num_batched_tokens
    rps = s.capacity[0] if s.capacity is not None else None
    return ModelEstimate(
        base_ms=law.base_ms,
        per_prefill_token_ms=law.per_prefill_token_ms,
        per_decode_row_ms=law.per_decode_row_ms,
        per_kv_token_ms=law.per_kv_token_ms,
        per_chunk_context_ms=law.per_chunk_context_ms,
        decode_step_ms=plant.decode_ms(plant.workload.rows_p95, plant.workload.kv_p95),
        budget=budget,
        budget_step_ms=plant.full_ms(budget),
        budget_cap=s.cap if s.model_usable else None,
        capacity_rps=rps,
        steps=plant.prefill.steps + plant.decode.steps,
        trusted=s.model_trusted,
        slow_pods=slow_pods(s),
    )
