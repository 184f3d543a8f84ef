"""What a tick adds to memory before anything is decided."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from paceline_operator.autopilot.measurement import error_budget, minutes
from paceline_operator.autopilot.plant import fit
from paceline_operator.autopilot.plant.drift import compared
from paceline_operator.autopilot.plant.fit import Estimate
from paceline_operator.autopilot.plant.pace import judged, sick
from paceline_operator.autopilot.plant.plant import laws
from paceline_operator.autopilot.plant.prior import prior_of
from paceline_operator.autopilot.replicas.limits import noted
from paceline_operator.autopilot.vocabulary.fleet import FleetObservation, PodObservation
from paceline_operator.autopilot.vocabulary.memory import FitMemory, Memory
from paceline_operator.autopilot.vocabulary.policy import Policy
from paceline_operator.autopilot.vocabulary.window import Counter as Counted
from paceline_operator.autopilot.vocabulary.window import StepClass, Window, without

COLD_STARTS_KEPT = 5
LONGEST_COLD_START_S = 900.0
FIRST_SEEN_WITHIN_S = 60.0
SETTLED_S = 60.0
_SAME_S = 1e-3
PROVEN_LASTS_S = 1800.0


def learned(policy: Policy, fleet: FleetObservation, memory: Memory, now_s: float) -> Memory:
    """Memory with the new slices, the newest cold starts and the manual replicas in it."""
    memory = _acknowledged(_for_plant(memory, fleet), fleet, now_s)
    for window in fleet.slices:
        if window.end_s > memory.learned_until_s:
            memory = _from_slice(policy, fleet, memory, window)
    memory = replace(memory, minutes=minutes.noted(memory.minutes, fleet.slices))
    memory = _cold_starts(_of_the_living(memory, fleet), fleet, now_s)
    return noted(policy, memory, now_s)


def _of_the_living(memory: Memory, fleet: FleetObservation) -> Memory:
    """Paces of pods that exist: where no slice comes any more, nothing else forgets the others."""
    alive = {pod.uid for pod in fleet.pods}
    if all(pace.uid in alive for pace in memory.paces):
        return memory
    return replace(memory, paces=tuple(pace for pace in memory.paces if pace.uid in alive))


def _for_plant(memory: Memory, fleet: FleetObservation) -> Memory:
    """Steps of another template, or with other resources, say nothing about these."""
    template = fleet.template_hash or memory.template_hash
    resources = _resources(fleet) or memory.resources
    is_same = (memory.template_hash or template) == template and (
        (memory.resources or resources) == resources
    )
    memory = replace(memory, template_hash=template, resources=resources)
    if is_same:
        return memory
    return replace(
        memory,
        decode_fit=FitMemory(),
        prefill_fit=FitMemory(),
        paces=(),
        step_factor=1.0,
        clipped_since_s=None,
        proven_budget=0,
        refused_budget=0,
        failed_budget=0,
        capacity_factor=1.0,
        hit_shares=(),
        cold_starts_s=(),
    )


def _resources(fleet: FleetObservation) -> str:
    """What most pods of the template have of their nodes; empty while nobody says."""
    current = (p.resources for p in fleet.serving if p.template_hash == fleet.template_hash)
    counted = Counter(each for each in current if each)
    return max(counted, key=lambda each: (counted[each], each), default="")


def _from_slice(policy: Policy, fleet: FleetObservation, memory: Memory, window: Window) -> Memory:
    prior = prior_of(policy.profile)
    known = laws(memory, prior)
    memory = _paced(known, fleet, error_budget.noted(policy, memory, window), window)
    window = without(window, sick(memory.paces) | _warming_up(fleet, window.end_s))
    memory = compared(memory, window, known)
    decode = window.moments(StepClass.DECODE_ONLY)
    prefill = window.moments(StepClass.MIXED, StepClass.PREFILL_ONLY)
    memory = replace(
        memory,
        decode_fit=fit.learn(memory.decode_fit, decode, fit.DECODE, prior.decode),
        prefill_fit=fit.learn(memory.prefill_fit, prefill, fit.PREFILL, prior.prefill),
        learned_until_s=window.end_s,
    )
    return _proven(memory, window)


def _paced(
    known: tuple[Estimate, Estimate], fleet: FleetObservation, memory: Memory, window: Window
) -> Memory:
    """Judges each pod by its steps; the evidence that a newly sick one has spoilt goes."""
    settled = [pod.uid for pod in fleet.serving if _is_settled(pod, window.end_s)]
    paces = judged(memory.paces, window, known, settled)
    if not sick(paces) - sick(memory.paces):
        return replace(memory, paces=paces)
    return replace(
        memory,
        paces=paces,
        decode_fit=fit.shaken(memory.decode_fit),
        prefill_fit=fit.shaken(memory.prefill_fit),
    )


def _warming_up(fleet: FleetObservation, now_s: float) -> frozenset[str]:
    """Pods that say little about the plant yet, where others say more."""
    young = frozenset(pod.uid for pod in fleet.serving if not _is_settled(pod, now_s))
    return young if len(young) < len(fleet.serving) else frozenset()


def _is_settled(pod: PodObservation, now_s: float) -> bool:
    """A pod that has just come up compiles and fills its caches: that is no sickness."""
    return pod.ready_since_s is not None and now_s - pod.ready_since_s >= SETTLED_S


def _acknowledged(memory: Memory, fleet: FleetObservation, now_s: float) -> Memory:
    """Since when all engines work with a budget; a pod without an answer breaks it.

    The pod that tries another one is no part of it: what it does with that is judged apart.
    """
    tries = memory.trial.uid if memory.trial is not None else ""
    others = (pod for pod in fleet.serving if pod.uid != tries)
    reports = (p.tunables.effective if p.tunables else 0 for p in others)
    budget = min(reports, default=0)
    if budget == memory.acknowledged_budget:
        return memory
    return replace(memory, acknowledged_budget=budget, acknowledged_at_s=now_s)


def _proven(memory: Memory, window: Window) -> Memory:
    """Full-budget steps in a slice that began with that budget in force everywhere prove it."""
    if window.end_s - memory.proven_at_s > PROVEN_LASTS_S:
        memory = replace(memory, proven_budget=0)
    began_earlier = window.start_s < memory.acknowledged_at_s - _SAME_S
    if began_earlier or not _full_steps(memory, window):
        return memory
    if not memory.proven_budget <= memory.acknowledged_budget > 0:
        return memory
    return replace(memory, proven_budget=memory.acknowledged_budget, proven_at_s=window.end_s)


def _full_steps(memory: Memory, window: Window) -> float:
    """Steps that used the whole budget, on the pods that have the agreed one."""
    tries = window.pods.get(memory.trial.uid) if memory.trial is not None else None
    return window.count(Counted.STEPS_AT_BUDGET) - (tries.at_budget if tries is not None else 0.0)


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
