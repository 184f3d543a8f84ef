"""Gathers what one pass needs: from the store, from engines, and from lists now and then."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from pydantic import ValidationError

from paceline_operator.api.status import InferenceServiceStatus
from paceline_operator.api.v1alpha1 import InferenceServiceSpec
from paceline_operator.autopilot.measurement.attainment import LATENCY_OF
from paceline_operator.autopilot.vocabulary.fleet import PodTunables
from paceline_operator.autopilot.vocabulary.memory import Memory
from paceline_operator.domain import calendar, crash_loop, modes, pods, rollout, tunables
from paceline_operator.domain.belonging import is_child, is_replica
from paceline_operator.domain.contract import HEALTH_PORT, HealthPath
from paceline_operator.domain.errors import SpecError
from paceline_operator.domain.names import ENGINE, PROXY, derive
from paceline_operator.domain.ownership import WINDOW_S, autoscaler_of
from paceline_operator.domain.pinned import Pinned
from paceline_operator.domain.pods import PodView, Problem
from paceline_operator.domain.scale_in import DrainState
from paceline_operator.kube.client import Object
from paceline_operator.kube.errors import ConflictError, NotFoundError, UnavailableError
from paceline_operator.kube.read import fetch, fetch_all, fetch_children
from paceline_operator.kube.resource import (
    AUTOSCALER,
    CONFIG_MAP,
    DEPLOYMENT,
    INFERENCE_SERVICE,
    POD,
    SCALED_OBJECT,
    SECRET,
    SERVICE,
)
from paceline_operator.kube.store import Key
from paceline_operator.metrics import Target
from paceline_operator.reconcile import admin_secret, causes, measuring
from paceline_operator.reconcile.context import Context
from paceline_operator.reconcile.engine_admin import EngineError
from paceline_operator.reconcile.inheritance import join_changes, take_over
from paceline_operator.reconcile.observed import Observed
from paceline_operator.reconcile.session import NEVER, Session

log = logging.getLogger(__name__)

RESYNC_S = 300.0
RETRY_S = 15.0
REPLACED = "replaced by another object of the same name"
T = TypeVar("T")


async def gather(ctx: Context, key: Key) -> Observed | None:
    """Everything about one object, or None where it is gone or going.

    Raises:
        ConflictError: The object was replaced by another of its name.
        KubeError: A list or read failed.
    """
    if _is_going(ctx.store.get(INFERENCE_SERVICE, *key)):
        # Its pods' last events need no lists; one of its name that is made anew has its own.
        return None
    session, now_s = ctx.session(key), ctx.clock()
    # Measured before anything is asked of an API server that may be away.
    is_known = session.token is not None
    is_measured = is_known and await _measure(ctx, key, session, now_s)
    await _refresh(ctx, key, session, now_s)
    service = await _service(ctx, key, session)
    if service is None:
        return None
    # Nothing is awaited between the object and its children: they are of one moment.
    status, (asked, refused) = _status(service), _spec(service)
    spec = None if asked is None else modes.capped(asked, ctx.max_mode)
    _judge(session, spec)
    children = _children(ctx, key, session)
    items = _pods(ctx, key)
    deployment, proxy = (children.get((DEPLOYMENT.kind, n)) for n in _deployments(key[1]))
    if session.memory is None:
        join_changes(ctx, status.memory, key)
    take_over(session, service, status, deployment, now_s)
    session.forgiven = crash_loop.remembered(session.forgiven, items, now_s)
    fleet = crash_loop.marked(pods.read_pods(items), items, now_s, session.forgiven)
    fleet = await causes.explained(ctx, session, key[0], fleet, now_s)
    ailing = _ailing_proxy(items, now_s, session.forgiven)
    is_measured = is_measured or (not is_known and await _measure(ctx, key, session, now_s))
    token = session.token or ""
    await _reports(ctx, session, fleet, token, now_s)
    return Observed(
        service=service,
        now_s=now_s,
        token=token,
        spec=spec if token else None,
        lowered=frozenset() if asked is None else modes.lowered(asked, ctx.max_mode),
        braked=asked is not None and modes.braked(asked, ctx.max_mode),
        refused=refused if token else session.missing_right,
        missing_right=session.missing_right,
        status=status,
        children=children,
        deployment=deployment,
        proxy=proxy,
        proxy_problem=rollout.not_made(proxy) if ailing is None else ailing.problem,
        proxy_looping=ailing is not None and ailing.looping,
        pods=fleet,
        scrape=session.scrape,
        reports=_by_uid(session, fleet),
        waits={
            p.uid: session.waits[p.incarnation][1] for p in fleet if p.incarnation in session.waits
        },
        drains=await _drains(ctx, session, fleet, token),
        memory=session.memory or Memory(),
        writers=session.writers,
        autoscaler=_autoscaler(ctx, key, session, now_s),
        pinned=session.pinned or Pinned(),
        target=session.target,
        retry_drain_at_s=session.retry_drain_at_s,
        is_measured=is_measured,
        is_settling=session.is_settling(now_s),
    )


async def _refresh(ctx: Context, key: Key, session: Session, now_s: float) -> None:
    """Resync now and then, sooner where the token is doubted.

    Its failure is put off while the watches' view will do, for all but the very first.
    """
    every_s = RETRY_S if session.token_doubted else RESYNC_S
    if now_s - session.resynced_at_s <= every_s:
        return
    try:
        await _resync(ctx, key, session)
    except UnavailableError as error:
        if session.token is None:
            raise
        log.warning("%s/%s: not resynced: %s", *key, error)
        session.resynced_at_s = now_s - every_s + RETRY_S
        return
    session.resynced_at_s, session.token_doubted = now_s, False
    if ctx.session(key) is not session:
        raise ConflictError(REPLACED)


async def _resync(ctx: Context, key: Key, session: Session) -> None:
    """List what is otherwise watched, and have the Secret read: repairs missed events."""
    known = ctx.store.get(INFERENCE_SERVICE, *key)
    service = await fetch(ctx.client, INFERENCE_SERVICE, *key)
    if service is None:
        _forget(ctx, key, known)
        return
    ctx.store.put(INFERENCE_SERVICE, service)
    for kind in (DEPLOYMENT, SERVICE, CONFIG_MAP, POD):
        before = ctx.store.children(kind, *key)
        ctx.store.relist(kind, before, await fetch_children(ctx.client, kind, *key))
    before = ctx.store.in_namespace(AUTOSCALER, key[0])
    ctx.store.relist(AUTOSCALER, before, await fetch_all(ctx.client, AUTOSCALER, key[0]))
    if ctx.has_keda:
        await _resync_keda(ctx, key[0])
    session.secret_read_at_s = NEVER


async def _resync_keda(ctx: Context, namespace: str) -> None:
    """List ScaledObjects, or know that there are none any more."""
    before = ctx.store.in_namespace(SCALED_OBJECT, namespace)
    try:
        items = await fetch_all(ctx.client, SCALED_OBJECT, namespace)
    except NotFoundError:
        log.info("there are no ScaledObjects any more: KEDA was removed")
        ctx.has_keda = False
        ctx.store.forget_kind(SCALED_OBJECT)
    else:
        ctx.store.relist(SCALED_OBJECT, before, items)


def _forget(ctx: Context, key: Key, known: Object | None) -> None:
    """Drop an object that is gone, unless another of its name came while that was asked."""
    if known is not None:
        ctx.store.remove(INFERENCE_SERVICE, known)
    if ctx.store.get(INFERENCE_SERVICE, *key) is None:
        ctx.store.forget_service(*key)


async def _service(ctx: Context, key: Key, session: Session) -> Object | None:
    """The object as it is once its Secret was read."""
    known = _wanted(ctx, key)
    if known is None:
        return None
    await admin_secret.refresh(ctx, key, str(known["metadata"]["uid"]), session)
    service = _wanted(ctx, key)
    if service is not None and ctx.session(key) is not session:
        raise ConflictError(REPLACED)
    return service


def _wanted(ctx: Context, key: Key) -> Object | None:
    """The object as last seen, unless it is gone or going."""
    service = ctx.store.get(INFERENCE_SERVICE, *key)
    return None if _is_going(service) else service


def _judge(session: Session, spec: InferenceServiceSpec | None) -> None:
    """Have the rounds read what the objectives are about."""
    if spec is not None:
        session.scraper.judge(frozenset((LATENCY_OF[o.metric], o.tier.value) for o in spec.slos))


def _is_going(service: Object | None) -> bool:
    return service is not None and bool(service["metadata"].get("deletionTimestamp"))


def _status(service: Mapping[str, Any]) -> InferenceServiceStatus:
    try:
        return InferenceServiceStatus.model_validate(service.get("status") or {})
    except ValidationError as error:
        log.warning("%s: stored status not understood: %s", service["metadata"]["name"], error)
        return InferenceServiceStatus()


def _spec(service: Mapping[str, Any]) -> tuple[InferenceServiceSpec | None, Problem | None]:
    try:
        spec = InferenceServiceSpec.model_validate(service.get("spec") or {})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return None, Problem("InvalidSpec", f"spec.{where}: {first['msg']}")
    try:
        calendar.check(spec)
    except SpecError as error:
        return None, Problem(error.reason, str(error))
    return spec, None


def _children(ctx: Context, key: Key, session: Session) -> dict[tuple[str, str], Object]:
    """The object's children; what merely carries its labels says nothing about it."""
    found = {
        (kind.kind, item["metadata"]["name"]): item
        for kind in (DEPLOYMENT, SERVICE, CONFIG_MAP)
        for item in ctx.store.children(kind, *key)
        if is_child(item, session.uid, derive(key[1]))
    }
    if session.secret is not None:
        found[SECRET.kind, session.secret["metadata"]["name"]] = session.secret
    return found


def _deployments(name: str) -> tuple[str, str]:
    return derive(name), derive(name, PROXY)


def _pods(ctx: Context, key: Key) -> list[Object]:
    """Pods of both components; one that merely carries their labels is no part of the fleet."""
    made_for = {ENGINE: derive(key[1]), PROXY: derive(key[1], PROXY)}
    return [
        item
        for item in ctx.store.children(POD, *key)
        if is_replica(item, made_for.get(pods.component(item) or "", ""))
    ]


def _ailing_proxy(
    items: Iterable[Mapping[str, Any]], now_s: float, forgiven: Mapping[str, Mapping[str, int]]
) -> PodView | None:
    """A proxy pod with a problem, first one in a crash loop."""
    proxies = [item for item in items if pods.component(item) == PROXY]
    views = crash_loop.marked(map(pods.read_pod, proxies), proxies, now_s, forgiven)
    found = [view for view in views if view.live and view.problem]
    return next((view for view in found if view.looping), next(iter(found), None))


def _autoscaler(ctx: Context, key: Key, session: Session, now_s: float) -> str | None:
    items = [
        item
        for kind in (AUTOSCALER, SCALED_OBJECT)
        for item in ctx.store.in_namespace(kind, key[0])
    ]
    found = autoscaler_of(items, derive(key[1]))
    if found is not None:
        session.autoscaler = (found, now_s)
    if session.autoscaler is None or now_s - session.autoscaler[1] > WINDOW_S:
        return None
    return session.autoscaler[0]


async def _measure(ctx: Context, key: Key, session: Session, now_s: float) -> bool:
    """One round of scraping, if one is due; whether one has ended."""
    if measuring.is_due(ctx, session, now_s):
        measuring.begin(session, _targets(ctx, key, session), now_s)
    return await measuring.end(ctx, key, session)


def _targets(ctx: Context, key: Key, session: Session) -> list[Target]:
    """Pods that have an address."""
    fleet = pods.read_pods(_pods(ctx, key))
    deployment = ctx.store.get(DEPLOYMENT, key[0], derive(key[1]))
    is_ours = deployment is not None and is_child(deployment, session.uid, derive(key[1]))
    current = pods.template_hash(deployment if is_ours else None)
    return [
        Target(
            uid=pod.uid,
            url=_metrics_url(pod.ip),
            namespace=key[0],
            name=pod.name,
            current=pod.template_hash == current,
        )
        for pod in fleet
        if pod.ip is not None and not pod.finished
    ]


def _metrics_url(ip: str) -> str:
    host = f"[{ip}]" if ":" in ip else ip
    return f"http://{host}:{HEALTH_PORT}{HealthPath.METRICS}"


async def _reports(
    ctx: Context, session: Session, fleet: tuple[PodView, ...], token: str, now_s: float
) -> None:
    """Ask engines whose report is missing or older than what they were scraped with."""
    known = {pod.incarnation for pod in fleet}
    session.reports = {k: v for k, v in session.reports.items() if k in known}
    session.waits = {k: v for k, v in session.waits.items() if k in known}
    session.silences = {k: v for k, v in session.silences.items() if k in known}
    asked = [pod for pod in fleet if token and _wants_report(session, pod, now_s)]
    answers = await _all(session, asked, lambda pod: ctx.engines.tunables(pod.ip or "", token))
    by_uid: dict[str, PodTunables] = answers
    for pod in asked:
        if pod.uid not in by_uid:
            session.unheard(pod.incarnation, now_s)
        else:
            session.silences.pop(pod.incarnation, None)
            report = session.reports[pod.incarnation] = by_uid[pod.uid]
            if not tunables.can_follow(report.revision):
                log.warning(
                    "pod %s reports revision %d, which the operator does not follow: it keeps its "
                    "live values until it is replaced", pod.name, report.revision,
                )  # fmt: skip


def _wants_report(session: Session, pod: PodView, now_s: float) -> bool:
    if pod.ip is None or not pod.ready or not pod.live:
        return False
    if now_s < session.silences.get(pod.incarnation, (0, NEVER))[1]:
        return False
    report = session.reports.get(pod.incarnation)
    reading = session.scrape.pods.get(pod.uid) if session.scrape is not None else None
    if report is None:
        return True
    # A scrape that is older than the last push shows the revision before it.
    return reading is not None and not reading.error and reading.tunables_revision > report.revision


def _by_uid(session: Session, fleet: Iterable[PodView]) -> dict[str, PodTunables]:
    return {
        pod.uid: session.reports[pod.incarnation]
        for pod in fleet
        if pod.incarnation in session.reports
    }


async def _drains(
    ctx: Context, session: Session, fleet: Iterable[PodView], token: str
) -> dict[str, DrainState]:
    """How far drains are, of marked pods and of those that somebody else drains."""
    asked = [pod for pod in fleet if token and _may_drain(session, pod)]
    states = await _all(session, asked, lambda pod: ctx.engines.drain_state(pod.ip or "", token))
    ending = {pod.uid for pod in asked if pod.incarnation in session.ending}
    states = {k: replace(v, terminal=v.terminal or k in ending) for k, v in states.items()}
    marked = {pod.uid for pod in asked if pod.draining_since_s is not None}
    return {uid: state for uid, state in states.items() if uid in marked or state.active}


def _may_drain(session: Session, pod: PodView) -> bool:
    if not pod.live or pod.ip is None:
        return False
    # A drain makes an engine unready. One that answers no scrape would only cost a timeout.
    reading = session.scrape.pods.get(pod.uid) if session.scrape is not None else None
    answers = reading is not None and not reading.error
    return pod.draining_since_s is not None or (not pod.ready and answers)


async def _all(
    session: Session, asked: list[PodView], ask: Callable[[PodView], Awaitable[T]]
) -> dict[str, T]:
    """Ask pods at once; those that do not answer are missing from the result."""

    async def one(pod: PodView) -> tuple[str, T] | None:
        try:
            return pod.uid, await ask(pod)
        except EngineError as error:
            session.note(error)
            log.debug("pod %s: %s", pod.name, error)
            return None

    answers = await asyncio.gather(*(one(pod) for pod in asked))
    return dict(answer for answer in answers if answer is not None)
