"""What a tick adds to memory before anything is decided."""

from __future__ import annotations

from dataclasses import replace

from paceline_operator.autopilot import error_budget, fit
from paceline_operator.autopilot.fleet import FleetObservation
from paceline_operator.autopilot.memory import FitMemory, Memory
from paceline_operator.autopilot.policy import Policy
from paceline_operator.autopilot.prior import prior_of
from paceline_operator.autopilot.replica_limits import noted
from paceline_operator.autopilot.window import Counter, StepClass, Window

COLD_STARTS_KEPT = 5
LONGEST_COLD_START_S = 900.0
FIRST_SEEN_WITHIN_S = 60.0
_SAME_S = 1e-3
PROVEN_LASTS_S = 1800.0


def learned(policy: Policy, fleet: FleetObservation, memory: Memory, now_s: float) -> Memory:
    """Memory with the new slices, the newest cold starts and the manual replicas in it."""
    memory = _acknowledged(_for_template(memory, fleet.template_hash), fleet, now_s)
    for window in fleet.slices:
        if window.end_s > memory.learned_until_s:
            memory = _from_slice(policy, memory, window)
    memory = _cold_starts(memory, fleet, now_s)
    return noted(policy, memory, now_s)


def _for_template(memory: Memory, template_hash: str) -> Memory:
    """Steps of another template say nothing about this one."""
    if memory.template_hash == template_hash:
        return memory
    if not memory.template_hash:
        return replace(memory, template_hash=template_hash)
    return replace(
        memory,
        template_hash=template_hash,
        decode_fit=FitMemory(),
        prefill_fit=FitMemory(),
        proven_budget=0,
        refused_budget=0,
        capacity_factor=1.0,
        cold_starts_s=(),
    )


def _from_slice(policy: Policy, memory: Memory, window: Window) -> Memory:
    prior = prior_of(policy.profile)
    decode = window.moments(StepClass.DECODE_ONLY)
    prefill = window.moments(StepClass.MIXED, StepClass.PREFILL_ONLY)
    memory = replace(
        memory,
        decode_fit=fit.learn(memory.decode_fit, decode, fit.DECODE, prior.decode),
        prefill_fit=fit.learn(memory.prefill_fit, prefill, fit.PREFILL, prior.prefill),
        learned_until_s=window.end_s,
    )
    return _proven(error_budget.noted(policy, memory, window), window)


def _acknowledged(memory: Memory, fleet: FleetObservation, now_s: float) -> Memory:
    """Since when all engines work with a budget; a pod without an answer breaks it."""
    reports = (p.tunables.effective if p.tunables else 0 for p in fleet.serving)
    budget = min(reports, default=0)
    if budget == memory.acknowledged_budget:
        return memory
    return replace(memory, acknowledged_budget=budget, acknowledged_at_s=now_s)


def _proven(memory: Memory, window: Window) -> Memory:
    """Full-budget steps in a slice that began with that budget in force everywhere prove it."""
    if window.end_s - memory.proven_at_s > PROVEN_LASTS_S:
        memory = replace(memory, proven_budget=0)
    began_earlier = window.start_s < memory.acknowledged_at_s - _SAME_S
    if began_earlier or not window.count(Counter.STEPS_AT_BUDGET):
        return memory
    if not memory.proven_budget <= memory.acknowledged_budget > 0:
        return memory
    return replace(memory, proven_budget=memory.acknowledged_budget, proven_at_s=window.end_s)


def _cold_starts(memory: Memory, fleet: FleetObservation, now_s: float) -> Memory:
    """A new pod seen before it ever was ready gives a cold start once it is.

    A pod that is unready again, or first seen old, only tells how long it has existed.
    """
    starting, served = dict(memory.starting), set(memory.served)
    found = list(memory.cold_starts_s)
    waiting: list[tuple[str, float]] = []
    young: list[str] = []
    for pod in fleet.pods:
        is_young = now_s - pod.created_s <= FIRST_SEEN_WITHIN_S
        if is_young and (pod.ready or pod.uid in served):
            young.append(pod.uid)
        if pod.draining or pod.template_hash != fleet.template_hash or pod.uid in served:
            continue
        if not pod.ready and (is_young or pod.uid in starting):
            waiting.append((pod.uid, pod.created_s))
        elif pod.uid in starting and pod.ready_since_s is not None:
            took_s = max(0.0, pod.ready_since_s - pod.created_s)
            found.append(min(LONGEST_COLD_START_S, took_s))
    return replace(
        memory,
        cold_starts_s=tuple(found[-COLD_STARTS_KEPT:]),
        starting=tuple(waiting[:64]),
        served=tuple(young[:64]),
    )
