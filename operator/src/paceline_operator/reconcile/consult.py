"""Asks the autopilot: what was gathered, in the form the control law reads."""

from __future__ import annotations

from dataclasses import replace

from paceline_operator.api.v1alpha1 import InferenceServiceSpec
from paceline_operator.autopilot import pilot
from paceline_operator.autopilot.knobs.loop import KNOB_EVERY_S
from paceline_operator.autopilot.record import Asked
from paceline_operator.autopilot.replicas.loop import REPLICA_EVERY_S
from paceline_operator.autopilot.vocabulary.decision import Knob
from paceline_operator.autopilot.vocabulary.fleet import FleetObservation, PodObservation, Tunables
from paceline_operator.autopilot.vocabulary.memory import Memory, not_after
from paceline_operator.autopilot.vocabulary.policy import policy_from_spec
from paceline_operator.domain.pods import UNSCHEDULABLE, PodView, template_hash
from paceline_operator.reconcile.observed import Observed


def ask(
    seen: Observed,
    spec: InferenceServiceSpec,
    target: int | None,
    knobs: Tunables,
    yielded: dict[str, str],
) -> Asked:
    """What the autopilot says now, with what it was asked.

    Args:
        seen: What was gathered.
        spec: The spec, modes capped.
        target: Replicas wanted so far; `/scale` follows once pods have drained.
        knobs: Live knobs agreed so far.
        yielded: Knob -> foreign writer.
    """
    fleet = FleetObservation(
        now_s=seen.now_s,
        pods=tuple(_pod(seen, pod) for pod in seen.pods if not pod.finished),
        slices=seen.scrape.slices if seen.scrape is not None else (),
        desired_replicas=target or 0,
        desired_tunables=knobs if seen.status.budget.desired is not None else None,
        template_hash=template_hash(seen.deployment),
        rolling_out=seen.rolling_out,
        yielded=yielded,
        allowance=seen.allowance,
    )
    policy = replace(
        policy_from_spec(spec),
        tuning_lowered=Knob.BUDGET in seen.lowered,
        scaling_lowered=Knob.REPLICAS in seen.lowered,
        is_braked=seen.braked,
    )
    tick = pilot.step(policy, fleet, seen.memory, seen.now_s)
    return Asked(policy=policy, fleet=fleet, memory=seen.memory, now_s=seen.now_s, tick=tick)


def asked_anew(memory: Memory, now_s: float) -> Memory:
    """The memory with both loops due now; the record of recommendations stays unbroken.

    Whoever wrote it may have had a clock ahead of this one: nothing in it lies ahead of now.
    """
    memory = not_after(memory, now_s)
    return replace(
        memory,
        knob_at_s=min(memory.knob_at_s, now_s - KNOB_EVERY_S),
        replica_at_s=min(memory.replica_at_s, now_s - REPLICA_EVERY_S),
    )


def _no_room(pod: PodView) -> str:
    if pod.problem is None or pod.problem.reason != UNSCHEDULABLE:
        return ""
    return pod.problem.message or "the scheduler does not say why"


def _pod(seen: Observed, pod: PodView) -> PodObservation:
    reading = seen.scrape.pods.get(pod.uid) if seen.scrape is not None else None
    base = PodObservation(
        name=pod.name,
        uid=pod.uid,
        template_hash=pod.template_hash,
        resources=pod.resources,
        ready=pod.ready,
        created_s=pod.created_s,
        ready_since_s=pod.ready_since_s,
        unready_since_s=pod.unready_since_s,
        looping=pod.looping,
        draining=pod.deleting or pod.draining_since_s is not None,
        no_room=_no_room(pod),
        tunables=seen.reports.get(pod.uid),
    )
    if reading is None:
        return base
    return replace(
        base,
        data=reading.data,
        running=reading.running,
        waiting=reading.waiting,
        batch_waiting=reading.batch_waiting,
        waiting_tokens=reading.waiting_tokens,
        kv_usage=reading.kv_usage,
        kv_capacity_tokens=reading.kv_capacity_tokens,
    )
