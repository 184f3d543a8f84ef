"""One pass over one object: gather, decide, execute, one write of the status."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from paceline_operator.api.conditions import ConditionType, find_condition
from paceline_operator.api.status import MAX_DECISIONS, InferenceServiceStatus
from paceline_operator.autopilot.vocabulary.decision import Decision, Feasibility, Tick
from paceline_operator.autopilot.vocabulary.fleet import DataClass, classify
from paceline_operator.autopilot.vocabulary.memory import dump_memory
from paceline_operator.domain import (
    blast_radius,
    contest,
    former_limits,
    pinned,
    report,
    rollout,
)
from paceline_operator.domain.names import derive
from paceline_operator.domain.pods import Problem
from paceline_operator.domain.tunables import objectives_digest
from paceline_operator.domain.verdicts import Sight
from paceline_operator.kube.apply import ForeignChildError, write_status
from paceline_operator.kube.errors import (
    ForbiddenError,
    InvalidError,
    KubeError,
)
from paceline_operator.kube.event import Note
from paceline_operator.kube.resource import DEPLOYMENT, INFERENCE_SERVICE
from paceline_operator.kube.store import Key
from paceline_operator.metrics import STALE_AFTER_INTERVALS
from paceline_operator.reconcile import (
    children,
    consult,
    knobs,
    measuring,
    push,
    rendering,
    replica_moves,
)
from paceline_operator.reconcile.admin_secret import MISSING_RIGHT
from paceline_operator.reconcile.context import Context
from paceline_operator.reconcile.decide import Plan, decide, discarded
from paceline_operator.reconcile.gather import gather
from paceline_operator.reconcile.observed import Observed
from paceline_operator.reconcile.session import Session, dump_strays, dump_writers
from paceline_operator.reconcile.unmeasured import cause

log = logging.getLogger(__name__)

FAST_S = 1.0
IDLE_S = 15.0
NAME_TAKEN = "NameTaken"
NAME_TAKEN_S = 5.0
"""What is not labelled as ours is not watched: that it is gone is seen by looking."""


async def tick(ctx: Context, key: Key) -> float | None:
    """One pass; returns the delay to the next, None where the object is gone.

    Raises:
        LeaseLostError: This process may not write any more.
        ConflictError: Someone else wrote first.
        KubeError: Any other failure of the API.
    """
    session = ctx.session(key)
    session.begin_pass()
    seen = await gather(ctx, key)
    if seen is None:
        ctx.forget(key)
        return None
    is_new = seen.generation != session.stepped_generation
    if is_new:
        # The user asked for something: both loops answer at once.
        seen = replace(seen, memory=consult.asked_anew(seen.memory, seen.now_s))
    is_due = is_new or session.undecided
    if seen.is_measured:
        ctx.unmeasured.note(key, _unmeasured(ctx, seen, is_fresh=True))
    plan = _decided(ctx, key, seen, is_due=is_due)
    if plan.asked is not None:
        ctx.recorder.note(f"{seen.namespace}/{seen.name}", plan.asked)
    try:
        plan = await _carried_out(ctx, session, seen, plan)
    except Exception:
        # A defect too: each try of the same move would be counted anew.
        _uncount(ctx, session, key, seen.now_s)
        if session.is_ordered:
            _remember(session, seen, plan)  # it is done: what follows must know when
        await _tell_what_stands(ctx, session, seen, plan)
        raise
    _remember(session, seen, plan)
    await _publish(ctx, session, seen, plan)
    return _delay(ctx, session, seen, plan)


async def _carried_out(ctx: Context, session: Session, seen: Observed, plan: Plan) -> Plan:
    """Execute a plan; what is left of it where a part of it is refused for good."""
    try:
        await _execute(ctx, session, seen, plan)
    except (InvalidError, ForbiddenError, ForeignChildError) as error:
        _uncount(ctx, session, (seen.namespace, seen.name), seen.now_s)
        # Trying again does not help until a person acts: that belongs into the status.
        plan = discarded(seen, plan, _refusal(error), stands=session.stands)
        await _hold_as_allowed(ctx, session, seen, plan)
        await _tell_what_stands(ctx, session, seen, plan)
    return plan


def _decided(ctx: Context, key: Key, seen: Observed, *, is_due: bool) -> Plan:
    """The plan, and its changes counted at once: other objects decide while this one acts."""
    now_s = seen.now_s
    ctx.changes = blast_radius.recent(ctx.changes, now_s)
    allowance = blast_radius.allowance(ctx.most_changes, ctx.changes, key, now_s)
    plan = decide(replace(seen, allowance=allowance), ctx.platform, is_due=is_due)
    ctx.changes = (*ctx.changes, *blast_radius.made(plan.tick, key, now_s))
    return plan


def _uncount(ctx: Context, session: Session, key: Key, now_s: float) -> None:
    """Forget what a failed pass has counted: the next decides anew, unless it is begun."""
    if session.stands:
        return
    ctx.changes = tuple(c for c in ctx.changes if (c.service, c.time_s) != (key, now_s))


def _remember(session: Session, seen: Observed, plan: Plan) -> None:
    """Keep what was decided once others may know it; a pass that fails before decides anew."""
    session.memory = plan.memory
    session.writers = plan.writers
    session.target = plan.target if seen.scale is not None else None
    if plan.tick is not None and plan.tick is not session.last_tick:
        session.undecided = False
        session.unpublished = (*session.unpublished, *_applied(plan.tick))
        session.observed = (*session.observed, *plan.tick.observed)[-MAX_DECISIONS:]
        session.last_tick = plan.tick
        session.stepped_generation = seen.generation


def _applied(tick: Tick) -> tuple[Decision, ...]:
    return tuple(each for each in tick.decisions if each.applied)


async def _execute(ctx: Context, session: Session, seen: Observed, plan: Plan) -> None:
    await replica_moves.retrieve(ctx, session, seen, plan.strays)
    if plan.refused is not None:
        await _hold(ctx, session, seen, plan)
        return
    await _bring_about(ctx, session, seen, plan)
    if plan.agreed is not None and plan.pushes:
        if plan.announce:
            await _announce(ctx, session, seen, plan)
            _remember(session, seen, plan)
        taken = await push.push(ctx, session, plan.agreed, plan.pushes, seen.now_s)
        log.info(
            "%s/%s: %d of %d engines took revision %d",
            seen.namespace, seen.name, taken, len(plan.pushes), plan.agreed.revision,
        )  # fmt: skip
    await replica_moves.carry_out(ctx, session, seen, plan.moves)
    await _tell(ctx, session, seen, plan)
    await _tell_refusal(ctx, seen, seen.missing_right)


async def _bring_about(ctx: Context, session: Session, seen: Observed, plan: Plan) -> None:
    """Apply the children; what the engines are started with is remembered whatever follows."""
    engines = DEPLOYMENT.kind, derive(seen.name)
    for manifest in plan.children:
        is_engines = (manifest["kind"], manifest["metadata"]["name"]) == engines
        if is_engines and seen.deployment is not None:
            await _pin_ahead(ctx, session, seen, plan)
        await children.bring_about(ctx, session, seen, (manifest,), plan.target)
        if is_engines:
            session.pinned = plan.pinned


async def _pin_ahead(ctx: Context, session: Session, seen: Observed, plan: Plan) -> None:
    """Write what engines will be started with ahead of that.

    The process that follows this one, perhaps with another default image, must not start them
    once more. Engines that do not exist yet lose nothing by that.
    """
    stored = (seen.service if session.own is None else session.own).get("status")
    if plan.pinned is None or pinned.load(stored).covers(plan.pinned):
        return
    session.pinned = _pin(session, seen).expecting(plan.pinned)
    memory = {**(seen.status.memory or {}), pinned.KEY: pinned.dump(session.pinned)}
    await _write(ctx, session, seen, seen.status.model_copy(update={"memory": memory}))


async def _hold(ctx: Context, session: Session, seen: Observed, plan: Plan) -> None:
    """What a refusal leaves to be done: to serve with all there is, and to tell of it."""
    await replica_moves.carry_out(ctx, session, seen, plan.moves)
    await _tell_refusal(ctx, seen, plan.refused)


async def _hold_as_allowed(ctx: Context, session: Session, seen: Observed, plan: Plan) -> None:
    """The same, where a part of it may be refused too: the status tells of the first refusal."""
    try:
        await _hold(ctx, session, seen, plan)
    except (InvalidError, ForbiddenError) as error:
        log.warning("%s/%s: not held as wanted: %s", seen.namespace, seen.name, error)


def _refusal(error: KubeError) -> Problem:
    if isinstance(error, ForeignChildError):
        return Problem(NAME_TAKEN, str(error))
    if isinstance(error, ForbiddenError):
        return Problem(MISSING_RIGHT, str(error))
    return Problem("RejectedByServer", str(error))


async def _tell_refusal(ctx: Context, seen: Observed, refused: Problem | None) -> None:
    """Tell once: a status that says so already is no news."""
    known = find_condition(seen.status.conditions, ConditionType.STALLED)
    if refused is None or (known is not None and known.message == refused.message):
        return
    note = Note(refused.reason, "Reconcile", refused.message, warning=True)
    await ctx.events.tell(dict(seen.service), note)


async def _announce(ctx: Context, session: Session, seen: Observed, plan: Plan) -> None:
    """Write the new revision ahead of the push, so that no revision is ever used twice.

    The moves that led to it go with it: a process that ends now must not leave a move unsaid.
    """
    budget = knobs.budget_status(seen, plan.agreed)
    moves = (*session.unpublished, *(_applied(plan.tick) if plan.tick is not None else ()))
    status = report.with_moves(seen.status, moves).model_copy(
        update={"budget": budget, "memory": _memory(ctx, session, seen, plan)}
    )
    await _write(ctx, session, seen, status)
    session.is_announced = True


def _memory(ctx: Context, session: Session, seen: Observed, plan: Plan) -> dict[str, Any]:
    kept: dict[str, Any] = {
        "pilot": dump_memory(plan.memory),
        "writers": dump_writers(plan.writers),
        "strays": dump_strays(session.strays),
        blast_radius.KEY: blast_radius.dump(ctx.changes, (seen.namespace, seen.name)),
        pinned.KEY: pinned.dump(_pin(session, seen)),
    }
    if plan.agreed is None:
        return {**(seen.status.memory or {}), **kept}
    if plan.agreed.trial is not None:
        kept[knobs.TRIAL] = knobs.dump_trial(plan.agreed.trial)
    return {**kept, knobs.OBJECTIVES: objectives_digest(plan.agreed.slos)}


def _pin(session: Session, seen: Observed) -> pinned.Pinned:
    """What the fleet was started with: a spec that is refused has started nothing."""
    return seen.pinned if session.pinned is None else session.pinned


async def _tell_what_stands(ctx: Context, session: Session, seen: Observed, plan: Plan) -> None:
    """Tell of a decision that holds though its pass failed: the next one does not make it again."""
    if session.stands and not session.is_told:
        await _tell(ctx, session, seen, plan)


async def _tell(ctx: Context, session: Session, seen: Observed, plan: Plan) -> None:
    session.is_told = True
    if plan.adopted is not None:
        text = f"{plan.adopted.manager} set replicas to {plan.target}: adopted for one cool-down"
        await ctx.events.tell(dict(seen.service), Note("ForeignWrite", "Adopt", text))
    if plan.held is not None:
        await ctx.events.tell(dict(seen.service), Note("ScaleInHeld", "Undo", plan.held.message))
    for decision in plan.tick.decisions if plan.tick is not None else ():
        _count(ctx, seen, decision)
        if decision.applied:
            note = Note(decision.reason.value, decision.action.value, decision.message)
            await ctx.events.tell(dict(seen.service), note)
    for notice in plan.tick.notices if plan.tick is not None else ():
        note = Note(notice.reason.value, "Observe", notice.message, warning=notice.warning)
        await ctx.events.tell(dict(seen.service), note)


def _count(ctx: Context, seen: Observed, decision: Decision) -> None:
    labels = (decision.knob.value, decision.action.value, decision.reason.value)
    ctx.instruments.decided(seen.namespace, seen.name, *labels)


async def _publish(ctx: Context, session: Session, seen: Observed, plan: Plan) -> None:
    status = _status(ctx, session, seen, plan)
    _show(ctx, seen, status)
    stored = seen.status
    if session.own is not None:
        stored = InferenceServiceStatus.model_validate(session.own.get("status") or {})
    counted_at_s = session.written_at_s
    if report.worth_writing(stored, status, seen.now_s - counted_at_s):
        await _write(ctx, session, seen, status)
        session.written_at_s = report.counted_at_s(stored, status, seen.now_s, counted_at_s)
        session.unpublished, session.observed = (), ()


def _status(ctx: Context, session: Session, seen: Observed, plan: Plan) -> InferenceServiceStatus:
    # Engines have answered meanwhile: the status shows what they report now.
    reports = {p.uid: session.reports[p.incarnation] for p in seen.pods
               if p.incarnation in session.reports}  # fmt: skip
    current = replace(seen, reports=reports)
    found = report.Pass(
        name=seen.name,
        generation=seen.generation,
        spec=seen.spec,
        before=seen.status,
        sight=_sight(ctx, session, current, plan),
        budget=knobs.budget_status(current, plan.agreed),
        memory=_memory(ctx, session, seen, plan),
        now_s=seen.now_s,
        lowered=seen.lowered,
    )
    return report.status(found)


def _unmeasured(ctx: Context, seen: Observed, *, is_fresh: bool) -> str:
    """Why pods are not measured; where enough are, new ones are given the time to be found."""
    if seen.scrape is None:
        return ""
    given_s = STALE_AFTER_INTERVALS * ctx.source.interval_s if is_fresh else 0.0
    return cause(seen.pods, seen.scrape.pods, seen.now_s - given_s)


def _sight(ctx: Context, session: Session, seen: Observed, plan: Plan) -> Sight:
    told = _told(session, plan.tick)
    if told is not None and seen.spec is None:
        told = _unjudged(seen, told)
    is_fresh = told is not None and told.data is DataClass.FRESH
    ready = find_condition(seen.status.conditions, ConditionType.READY)
    has_proxy = seen.spec is not None and seen.spec.routing.mode.value == "Proxy"
    return Sight(
        pods=seen.pods,
        wanted=plan.target,
        template_hash=plan.template_hash,
        rolling_out=seen.rolling_out and plan.refused is None,
        was_ready=ready is not None and ready.status == "True",
        ready_before=seen.status.ready_replicas,
        proxy_ready=not has_proxy or rollout.is_available(seen.proxy),
        proxy_awaited=has_proxy and rendering.proxy_awaited(seen),
        proxy_at_rest=not has_proxy and seen.proxy is not None,
        proxy_problem=seen.proxy_problem if has_proxy else None,
        proxy_stuck=rollout.is_stuck(seen.proxy)
        or (seen.proxy_looping and rollout.is_complete(seen.proxy)),
        not_made=rollout.not_made(seen.deployment),
        refused=plan.refused or seen.missing_right,
        stuck=rollout.is_stuck(seen.deployment),
        rolled_out=rollout.is_complete(seen.deployment),
        waiting=None if plan.moves.waiting is None else plan.moves.waiting.value,
        yielded=plan.yielded,
        strays=tuple(pod.name for pod in plan.strays),
        strayed=session.strayed(seen.now_s),
        deaf=session.deaf(pod for pod in seen.pods if pod.live),
        contested=contest.told(session.contests, children.KINDS, seen.now_s),
        tick=told,
        unmeasured=_unmeasured(ctx, seen, is_fresh=is_fresh),
        settling=seen.is_settling,
        shortened=former_limits.shortened(seen.service.get("spec") or {}),
    )


def _told(session: Session, tick: Tick | None) -> Tick | None:
    """Measurements of the last tick, with moves no status tells of and what holds now."""
    last = tick or session.last_tick
    if last is None:
        return None
    holds = () if tick is None else tuple(each for each in tick.decisions if not each.applied)
    decisions = (*session.unpublished, *holds)
    return replace(last, decisions=decisions, actions=(), observed=session.observed)


def _unjudged(seen: Observed, told: Tick) -> Tick:
    """Without a spec that can be read nobody judges what is measured, only that it is."""
    readings = {} if seen.scrape is None else seen.scrape.pods
    found = (readings.get(pod.uid) for pod in seen.pods if pod.serving)
    data = classify(DataClass.ABSENT if each is None else each.data for each in found)
    return replace(told, data=data, slo=(), feasibility=Feasibility(feasible=None))


async def _write(
    ctx: Context, session: Session, seen: Observed, status: InferenceServiceStatus
) -> None:
    """Write over exactly the status this pass began with, or over its own announcement."""
    live = session.own if session.own is not None else dict(seen.service)
    item = await write_status(ctx.client, INFERENCE_SERVICE, live, report.dump(status))
    ctx.store.put(INFERENCE_SERVICE, item)
    session.own = item
    session.written_at_s = max(session.written_at_s, seen.now_s)


def _show(ctx: Context, seen: Observed, status: InferenceServiceStatus) -> None:
    labels, shown = (seen.namespace, seen.name), ctx.instruments
    shown.wanted(*labels, status.desired_replicas, status.budget.desired)
    shown.ready.labels(*labels).set(status.ready_replicas)
    ratios = {
        slo.name: slo.attainment_percent / 100
        for slo in status.slos
        if slo.attainment_percent is not None
    }
    shown.attain(*labels, ratios)
    shown.burns(*labels, {
        (slo.name, window): rate
        for slo in status.slos
        for window, rate in (("1h", slo.burn_hour), ("6h", slo.burn_six_hours))
        if rate is not None
    })  # fmt: skip
    shown.slow_pods.labels(*labels).set(len((status.model or {}).get("slowPods") or ()))


def _delay(ctx: Context, session: Session, seen: Observed, plan: Plan) -> float:
    """Soon while something is under way, in time for the next round while pods exist."""
    rest_s = IDLE_S
    if any(not pod.finished for pod in seen.pods):
        rest_s = measuring.due_in(ctx, session, ctx.clock())
    if plan.refused is not None:
        return min(rest_s, NAME_TAKEN_S if plan.refused.reason == NAME_TAKEN else IDLE_S)
    moves = plan.moves
    if (
        seen.scale is None
        or plan.pushes
        or moves.begin
        or moves.undo
        or replica_moves.due_strays(session, plan.strays, seen.now_s)
        or (moves.waiting and seen.drains)
    ):
        return FAST_S
    return rest_s
