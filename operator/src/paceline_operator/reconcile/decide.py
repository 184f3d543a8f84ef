"""Decides what one pass does: pure, from what was gathered to a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from paceline_operator.api.v1alpha1 import InferenceServiceSpec
from paceline_operator.autopilot.measurement import cold_starts
from paceline_operator.autopilot.record import Asked
from paceline_operator.autopilot.vocabulary.decision import Knob, SetReplicas, Tick
from paceline_operator.autopilot.vocabulary.fleet import DataClass, is_lost
from paceline_operator.autopilot.vocabulary.memory import Memory
from paceline_operator.autopilot.vocabulary.policy import policy_from_spec
from paceline_operator.domain import desired, ownership, replicas, rollout, scale_in
from paceline_operator.domain.errors import SpecError
from paceline_operator.domain.names import derive
from paceline_operator.domain.ownership import Write
from paceline_operator.domain.pinned import Pinned
from paceline_operator.domain.platform import Platform
from paceline_operator.domain.pods import PodView, Problem, template_hash
from paceline_operator.domain.tunables import Agreed
from paceline_operator.reconcile import consult, knobs, rendering
from paceline_operator.reconcile.held import Held, held_inwards, without_scale_in
from paceline_operator.reconcile.observed import Observed

MAX_PATIENCE_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What one pass does, in this order.

    Attributes:
        children: Manifests to bring about.
        pinned: What the fleet was started with, None where the spec is refused.
        refused: Why there are none.
        agreed: Live values every engine should run with, None where the spec is refused.
        announce: Whether their revision is new and must be in the status before any push.
        pushes: Pods to send them to.
        moves: Replicas and drains.
        strays: Pods that somebody else drains, to be taken back into service.
        target: Replicas wanted.
        held: A scale-in that is taken back in this pass.
        present: Replicas wanted before this pass's decision.
        adopted: A foreign write whose value was taken over in this pass.
        yielded: Knob -> writer it has yielded to.
        writers: Foreign writes to remember.
        asked: What the autopilot was asked in this pass, None where it was not.
        tick: What it said.
        memory: Its memory.
        template_hash: Template pods should be of.
    """

    children: tuple[Mapping[str, Any], ...] = ()
    pinned: Pinned | None = None
    refused: Problem | None = None
    agreed: Agreed | None = None
    announce: bool = False
    pushes: tuple[PodView, ...] = ()
    moves: scale_in.Moves = field(default_factory=scale_in.Moves)
    strays: tuple[PodView, ...] = ()
    target: int | None = None
    held: Held | None = None
    present: int | None = None
    adopted: Write | None = None
    yielded: Mapping[str, str] = field(default_factory=dict)
    writers: tuple[Write, ...] = ()
    asked: Asked | None = None
    tick: Tick | None = None
    memory: Memory = field(default_factory=Memory)
    template_hash: str = ""


def decide(seen: Observed, platform: Platform, *, is_due: bool) -> Plan:
    """One pass as data.

    Args:
        seen: What was gathered.
        platform: The installation's part of rendering.
        is_due: Whether the autopilot is asked in this pass.
    """
    writers, adopted, yielded = _ownership(seen)
    present = _present_target(seen, adopted, yielded)
    if adopted is not None:
        seen = replace(seen, memory=_disturbed(seen.memory, seen.now_s))
    base = Plan(writers=writers, adopted=adopted, yielded=yielded, memory=seen.memory,
                target=present, present=present,
                strays=scale_in.strays(seen.pods, seen.drains, ()))  # fmt: skip
    if seen.spec is None:
        return replace(
            base,
            refused=seen.refused,
            moves=_served_by_all(seen),
            template_hash=template_hash(seen.deployment),
        )
    known = knobs.present(seen, seen.spec)
    asked = _consult(seen, seen.spec, base, known) if is_due else None
    tick = None if asked is None else asked.tick
    plan = replace(
        base,
        asked=asked,
        tick=tick,
        memory=seen.memory if tick is None else tick.memory,
        target=_target(base, tick),
    )
    plan = _held(seen, seen.spec, plan)
    agreed, announce = knobs.agree(seen, seen.spec, known, knobs.wanted(tick), plan.memory)
    plan = replace(plan, agreed=agreed, announce=announce, pushes=knobs.behind(seen, agreed))
    given = rendering.render_input(seen, seen.spec, platform, agreed)
    try:
        children = desired.children(given)
    except SpecError as error:
        return discarded(seen, plan, Problem(error.reason, str(error)), stands=False)
    moves = _moves(seen, plan)
    return replace(
        plan,
        children=tuple(children),
        pinned=desired.pinned(given),
        template_hash=_template_of(children, seen.name),
        moves=moves,
        strays=scale_in.strays(seen.pods, seen.drains, moves.begin),
    )


def discarded(seen: Observed, plan: Plan, refused: Problem, *, stands: bool) -> Plan:
    """The plan of a spec that is refused: what runs goes on as it was, and no move is claimed.

    Args:
        seen: What was gathered.
        plan: What would have been done.
        refused: Why it is not.
        stands: Whether a part of it is done, so that the decision stands.
    """
    moves = _served_by_all(seen)
    if stands:
        return replace(plan, refused=refused, moves=moves)
    tick = plan.tick
    if tick is not None:
        tick = replace(tick, decisions=(), actions=(), memory=seen.memory)
    return Plan(
        refused=refused,
        target=plan.present,
        present=plan.present,
        adopted=plan.adopted,
        yielded=plan.yielded,
        strays=plan.strays,
        moves=moves,
        writers=plan.writers,
        tick=tick,
        memory=seen.memory,
        template_hash=template_hash(seen.deployment),
    )


def _template_of(children: list[dict[str, Any]], name: str) -> str:
    engines = ("Deployment", derive(name))
    found = (c for c in children if (c["kind"], c["metadata"]["name"]) == engines)
    return template_hash(next(found, None))


def _consult(seen: Observed, spec: InferenceServiceSpec, base: Plan, known: Agreed) -> Asked:
    left = dict(base.yielded)
    manager = ownership.adopted(base.writers, seen.now_s)
    if manager is not None:
        # A value that was adopted stands for one cool-down, against user and limits too.
        left.setdefault(Knob.REPLICAS.value, manager)
    return consult.ask(seen, spec, base.target, known.knobs, left)


def _ownership(seen: Observed) -> tuple[tuple[Write, ...], Write | None, dict[str, str]]:
    writers, adopted = seen.writers, None
    if seen.deployment is not None and seen.scale is not None:
        owner = ownership.foreign_owner(seen.deployment)
        writers, adopted = ownership.noted(writers, owner, seen.scale, seen.now_s)
    other = seen.autoscaler or ownership.fighter(writers, seen.now_s)
    return writers, adopted, {Knob.REPLICAS.value: other} if other else {}


def _present_target(
    seen: Observed, adopted: Write | None, yielded: Mapping[str, str]
) -> int | None:
    """Replicas wanted before this pass's decision.

    What this process decided stands. After a restart the status says what was wanted, but it
    is written after `/scale`: where they differ and no pod is being drained, the scale is newer.
    """
    if seen.scale is not None and (adopted is not None or yielded):
        return seen.scale
    if seen.target is not None:
        return seen.target
    is_claimed = seen.deployment is not None and ownership.is_claimed(seen.deployment)
    is_draining = any(pod.live and pod.draining_since_s is not None for pod in seen.pods)
    if is_claimed and not is_draining:
        return seen.scale
    if seen.status.desired_replicas is not None:
        return seen.status.desired_replicas
    return replicas.initial(seen.spec) if seen.spec is not None else seen.scale


def _target(base: Plan, tick: Tick | None) -> int | None:
    if tick is None or Knob.REPLICAS.value in base.yielded:
        return base.target
    wanted = [each.replicas for each in tick.actions if isinstance(each, SetReplicas)]
    return wanted[-1] if wanted else base.target


def _held(seen: Observed, spec: InferenceServiceSpec, plan: Plan) -> Plan:
    held = held_inwards(seen, spec, plan.target, plan.memory)
    if held is None:
        return plan
    return replace(plan, held=held, target=held.target, memory=without_scale_in(plan.memory))


def _disturbed(memory: Memory, now_s: float) -> Memory:
    """The memory after someone else's write: cool-downs begin as after a move of our own."""
    return replace(memory, scaled_in_at_s=now_s, scaled_in_from=0, scaled_out_at_s=now_s)


def _moves(seen: Observed, plan: Plan) -> scale_in.Moves:
    if seen.spec is None or seen.scale is None or plan.target is None:
        return scale_in.Moves()
    if Knob.REPLICAS.value in plan.yielded:
        return _served_by_all(seen)
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
        replacing=rollout.is_replacing(seen.deployment),
        loads=loads,
        lost=_lost(seen),
        drains=seen.drains,
        drain_s=float(seen.spec.rollout.drain_seconds),
        patience_s=_patience_s(seen.spec, plan.memory),
        retry_at_s=seen.retry_drain_at_s,
    )
    moves = scale_in.plan(fleet, seen.now_s)
    is_claimed = seen.deployment is not None and ownership.is_claimed(seen.deployment)
    if moves.scale is None and not is_claimed:
        return replace(moves, scale=seen.scale)
    return moves


def _lost(seen: Observed) -> frozenset[str]:
    """Pods that serve and have not been read for long, by this process itself."""
    readings = seen.scrape.pods if seen.scrape is not None else {}
    return frozenset(
        pod.uid
        for pod in seen.pods
        if pod.ready
        and (reading := readings.get(pod.uid)) is not None
        and is_lost(reading.data, pod.ready_since_s, seen.now_s)
    )


def _served_by_all(seen: Observed) -> scale_in.Moves:
    """No replica leaves: those that were about to are taken back."""
    marked = tuple(p for p in seen.pods if p.live and p.draining_since_s is not None)
    return scale_in.Moves(undo=marked)


def _patience_s(spec: InferenceServiceSpec, memory: Memory) -> float:
    """Age from which an unready pod is stuck: twice the slowest cold start known."""
    prior_s = policy_from_spec(spec).cold_start_prior_s
    return min(MAX_PATIENCE_S, 2 * cold_starts.longest_s(memory.cold_starts_s, prior_s))
