"""Decides what one pass does: pure, from what was gathered to a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from paceline_operator.api.status import BudgetStatus
from paceline_operator.api.v1alpha1 import InferenceServiceSpec
from paceline_operator.autopilot import pilot
from paceline_operator.autopilot.decision import Knob, SetReplicas, SetTunables, Tick
from paceline_operator.autopilot.fleet import (
    DataClass,
    FleetObservation,
    PodObservation,
    Tunables,
)
from paceline_operator.autopilot.memory import Memory
from paceline_operator.autopilot.policy import policy_from_spec
from paceline_operator.domain import desired, ownership, replicas, rollout, scale_in, tunables
from paceline_operator.domain.contract import TUNABLES_FILE
from paceline_operator.domain.errors import SpecError
from paceline_operator.domain.names import ANNOTATION_IMAGE, ANNOTATION_STARTUP, ANNOTATION_TEMPLATE
from paceline_operator.domain.names import derive
from paceline_operator.domain.ownership import Write
from paceline_operator.domain.platform import Platform
from paceline_operator.domain.pods import PodView, Problem
from paceline_operator.domain.tunables import Agreed
from paceline_operator.reconcile.observed import Observed

MAX_PATIENCE_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What one pass does, in this order.

    Attributes:
        children: Manifests to bring about.
        refused: Why there are none.
        agreed: Live values every engine should run with, None where the spec is refused.
        announce: Whether their revision is new and must be in the status before any push.
        pushes: Pods to send them to.
        moves: Replicas and drains.
        target: Replicas wanted.
        adopted: A foreign write whose value was taken over in this pass.
        yielded: Knob -> writer it has yielded to.
        writers: Foreign writes to remember.
        tick: What the autopilot said in this pass, None where it was not asked.
        memory: Its memory.
        template_hash: Template pods should be of.
    """

    children: tuple[Mapping[str, Any], ...] = ()
    refused: Problem | None = None
    agreed: Agreed | None = None
    announce: bool = False
    pushes: tuple[PodView, ...] = ()
    moves: scale_in.Moves = scale_in.Moves()
    target: int | None = None
    adopted: Write | None = None
    yielded: Mapping[str, str] = field(default_factory=dict)
    writers: tuple[Write, ...] = ()
    tick: Tick | None = None
    memory: Memory = Memory()
    template_hash: str = ""


def decide(seen: Observed, platform: Platform, *, is_due: bool) -> Plan:
    """One pass as data.

    Args:
        seen: What was gathered.
        platform: The installation's part of rendering.
        is_due: Whether the autopilot is asked in this pass.
    """
    writers, adopted, yielded = _ownership(seen)
    base = Plan(writers=writers, adopted=adopted, yielded=yielded, memory=seen.memory,
                target=_present_target(seen, adopted, yielded))  # fmt: skip
    if seen.spec is None:
        return replace(base, refused=seen.refused)
    known = present(seen, seen.spec)
    tick = _ask(seen, seen.spec, base, known.knobs) if is_due else None
    plan = replace(base, tick=tick, memory=_memory(seen, tick, adopted), target=_target(base, tick))
    agreed, announce = agree(seen, seen.spec, known, _wanted_knobs(tick))
    plan = replace(plan, agreed=agreed, announce=announce, pushes=_behind(seen, agreed))
    try:
        manifests = desired.children(_render_input(seen, seen.spec, platform, agreed))
    except SpecError as error:
        return replace(plan, refused=Problem(error.reason, str(error)), pushes=(), announce=False)
    return replace(
        plan,
        children=tuple(manifests),
        template_hash=_template_hash(manifests, seen.name),
        moves=_moves(seen, plan),
    )


# Replicas


def _ownership(seen: Observed) -> tuple[tuple[Write, ...], Write | None, dict[str, str]]:
    write = None if seen.deployment is None else ownership.foreign_write(seen.deployment)
    adopted = write if write is not None and write not in seen.writers else None
    writers = ownership.noted(seen.writers, write, seen.now_s)
    other = seen.autoscaler or ownership.fighter(writers, seen.now_s)
    return writers, adopted, {Knob.REPLICAS.value: other} if other else {}


def _present_target(
    seen: Observed, adopted: Write | None, yielded: Mapping[str, str]
) -> int | None:
    """Replicas wanted before this pass's decision."""
    if seen.scale is not None and (adopted is not None or yielded):
        return seen.scale
    if seen.status.desired_replicas is not None:
        return seen.status.desired_replicas
    return replicas.initial(seen.spec) if seen.spec is not None else seen.scale


def _target(base: Plan, tick: Tick | None) -> int | None:
    if tick is None or Knob.REPLICAS.value in base.yielded:
        return base.target
    wanted = [each.replicas for each in tick.actions if isinstance(each, SetReplicas)]
    return wanted[-1] if wanted else base.target


def _memory(seen: Observed, tick: Tick | None, adopted: Write | None) -> Memory:
    memory = seen.memory if tick is None else tick.memory
    if adopted is None:
        return memory
    # A disturbance: its value stands for one cool-down.
    return replace(memory, scaled_in_at_s=seen.now_s, scaled_out_at_s=seen.now_s)


def _moves(seen: Observed, plan: Plan) -> scale_in.Moves:
    if seen.spec is None or seen.scale is None or plan.target is None:
        return scale_in.Moves()
    if Knob.REPLICAS.value in plan.yielded:
        marked = tuple(p for p in seen.pods if p.live and p.draining_since_s is not None)
        return scale_in.Moves(undo=marked)
    readings = seen.scrape.pods if seen.scrape is not None else {}
    loads = {
        uid: float(each.running + each.waiting)
        for uid, each in readings.items()
        if each.data is DataClass.FRESH
    }
    fleet = scale_in.Fleet(
        pods=seen.pods,
        target=plan.target,
        scale=seen.scale,
        rolling_out=seen.rolling_out,
        loads=loads,
        drains=seen.drains,
        drain_s=float(seen.spec.rollout.drain_seconds),
        patience_s=_patience_s(seen.spec, plan.memory),
        retry_at_s=seen.retry_drain_at_s,
    )
    return scale_in.plan(fleet, seen.now_s)


def _patience_s(spec: InferenceServiceSpec, memory: Memory) -> float:
    """Age from which an unready pod is stuck: twice the slowest cold start known."""
    cold = memory.cold_starts_s or (policy_from_spec(spec).cold_start_prior_s,)
    return min(MAX_PATIENCE_S, 2 * max(cold))


# Live knobs


def present(seen: Observed, spec: InferenceServiceSpec) -> Agreed:
    """Live values in force by what the status, the ConfigMap and the spec say."""
    stored = _stored(seen)
    budget = seen.status.budget
    if budget.desired is None:
        return stored or tunables.initial(spec)
    first = tunables.initial(spec)
    knobs = Tunables(
        max_num_batched_tokens=budget.desired,
        max_num_running_seqs=budget.running_seqs or first.knobs.max_num_running_seqs,
    )
    slos = stored.slos if stored is not None else spec.slos
    return Agreed(budget.revision, knobs, slos)


def _stored(seen: Observed) -> Agreed | None:
    config = seen.children.get(("ConfigMap", derive(seen.name, "tunables"))) or {}
    return tunables.parse((config.get("data") or {}).get(TUNABLES_FILE))


def agree(
    seen: Observed, spec: InferenceServiceSpec, known: Agreed, knobs: Tunables | None
) -> tuple[Agreed, bool]:
    """Live values from now on, and whether they need a new revision.

    The revision goes on from the highest that the status or any engine knows, so an operator
    that lost its status is never behind its engines.
    """
    wanted = Agreed(known.revision, tunables.bounded(knobs or known.knobs, spec), spec.slos)
    highest = max((report.revision for report in seen.reports.values()), default=0)
    if wanted.same_values(known) and highest <= known.revision:
        return wanted, seen.status.budget.desired is None
    return replace(wanted, revision=max(known.revision, highest) + 1), True


def _wanted_knobs(tick: Tick | None) -> Tunables | None:
    actions = tick.actions if tick is not None else ()
    wanted = [each for each in actions if isinstance(each, SetTunables)]
    if not wanted:
        return None
    return Tunables(
        max_num_batched_tokens=wanted[-1].max_num_batched_tokens,
        max_num_running_seqs=wanted[-1].max_num_running_seqs,
    )


def _behind(seen: Observed, agreed: Agreed) -> tuple[PodView, ...]:
    """Pods that serve, or are about to leave, and have not reported the agreed revision."""
    return tuple(
        pod
        for pod in seen.pods
        if pod.live and pod.ip is not None
        and (report := seen.reports.get(pod.uid)) is not None
        and report.revision != agreed.revision
    )  # fmt: skip


def budget_status(seen: Observed, agreed: Agreed | None) -> BudgetStatus:
    """The live knobs as the status shows them: what engines report, not what was hoped."""
    if agreed is None:
        return seen.status.budget
    ready = [pod for pod in seen.pods if pod.live and pod.ready]
    reports = [seen.reports[pod.uid] for pod in ready if pod.uid in seen.reports]
    acknowledged = [each for each in reports if each.revision == agreed.revision]
    return BudgetStatus(
        revision=agreed.revision,
        desired=agreed.knobs.max_num_batched_tokens,
        effective=min((each.effective for each in acknowledged), default=None),
        running_seqs=agreed.knobs.max_num_running_seqs,
        acknowledged=len(acknowledged),
        total=len(ready),
    )


def _for_start(seen: Observed, agreed: Agreed) -> Agreed:
    """What a starting engine reads: the newest values that every serving engine runs with."""
    budget = budget_status(seen, agreed)
    stored = _stored(seen)
    return agreed if stored is None or budget.acknowledged >= budget.total else stored


# The autopilot and rendering


def _ask(seen: Observed, spec: InferenceServiceSpec, base: Plan, knobs: Tunables) -> Tick:
    fleet = FleetObservation(
        now_s=seen.now_s,
        pods=tuple(_pod(seen, pod) for pod in seen.pods if not pod.finished),
        slices=seen.scrape.slices if seen.scrape is not None else (),
        desired_replicas=base.target or 0,
        desired_tunables=knobs if seen.status.budget.desired is not None else None,
        template_hash=_live_template(seen),
        rolling_out=seen.rolling_out,
        yielded=dict(base.yielded),
    )
    return pilot.step(policy_from_spec(spec), fleet, seen.memory, seen.now_s)


def _pod(seen: Observed, pod: PodView) -> PodObservation:
    reading = seen.scrape.pods.get(pod.uid) if seen.scrape is not None else None
    base = PodObservation(
        name=pod.name,
        uid=pod.uid,
        template_hash=pod.template_hash,
        ready=pod.ready,
        created_s=pod.created_s,
        ready_since_s=pod.ready_since_s,
        draining=pod.deleting or pod.draining_since_s is not None,
        tunables=seen.reports.get(pod.uid),
    )
    if reading is None:
        return base
    return replace(
        base,
        data=reading.data,
        running=reading.running,
        waiting=reading.waiting,
        waiting_tokens=reading.waiting_tokens,
        kv_usage=reading.kv_usage,
        kv_capacity_tokens=reading.kv_capacity_tokens,
    )


def _render_input(
    seen: Observed, spec: InferenceServiceSpec, platform: Platform, agreed: Agreed
) -> desired.RenderInput:
    metadata = (seen.deployment or {}).get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    return desired.RenderInput(
        owner=desired.Owner(name=seen.name, namespace=seen.namespace, uid=seen.uid),
        spec=spec,
        platform=platform,
        token=seen.token,
        live=_for_start(seen, agreed),
        strategy=rollout.resolve(
            spec,
            surge_blocked=_surge_blocked(seen),
            current=rollout.from_deployment(seen.deployment),
        ),
        pinned_image=annotations.get(ANNOTATION_IMAGE),
        pinned_hash=annotations.get(ANNOTATION_STARTUP),
    )


def _surge_blocked(seen: Observed) -> bool:
    current = _live_template(seen)
    return seen.rolling_out and any(
        pod.problem is not None and pod.problem.reason == "Unschedulable"
        for pod in seen.pods
        if pod.live and pod.template_hash == current
    )


def _live_template(seen: Observed) -> str:
    return "" if seen.deployment is None else _annotation(seen.deployment)


def _template_hash(manifests: list[dict[str, Any]], name: str) -> str:
    return next(
        _annotation(each)
        for each in manifests
        if each["kind"] == "Deployment" and each["metadata"]["name"] == derive(name)
    )


def _annotation(deployment: Mapping[str, Any]) -> str:
    metadata = deployment["spec"]["template"].get("metadata") or {}
    return str((metadata.get("annotations") or {}).get(ANNOTATION_TEMPLATE, ""))
