"""Carries out moves of replicas: marks, drains, and the one write to `/scale`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from paceline_operator.domain import contest
from paceline_operator.domain.names import (
    ANNOTATION_DELETION_COST,
    ANNOTATION_DRAINING,
    derive,
)
from paceline_operator.domain.pods import PodView
from paceline_operator.domain.scale_in import Moves
from paceline_operator.kube.client import MERGE_PATCH
from paceline_operator.kube.errors import ConflictError, KubeError, NotFoundError
from paceline_operator.kube.event import Note
from paceline_operator.kube.read import fetch
from paceline_operator.kube.resource import DEPLOYMENT, POD
from paceline_operator.kube.scale import read_scale, write_scale
from paceline_operator.reconcile.context import Context
from paceline_operator.reconcile.engine_admin import EngineError, RefusedError, UnreachableError
from paceline_operator.reconcile.observed import Observed
from paceline_operator.reconcile.session import STRAYED_S, Session

log = logging.getLogger(__name__)

RETRY_DRAIN_S = 60.0
TELL_EVERY_S = 60.0
IS_ENDING = 409
LOWEST_COST = str(-(2**31) + 1)


async def carry_out(ctx: Context, session: Session, seen: Observed, moves: Moves) -> None:
    """Do all moves of one pass.

    Raises:
        ConflictError: Someone else wrote first; the next pass looks again.
        KubeError: Any other refusal.
    """
    await _verify(ctx, session, seen)
    is_out = (moves.scale or 0) > (seen.scale or 0)
    if is_out:
        await _order(ctx, session, seen, moves)  # load waits for nobody's drain
    await _take_all_back(ctx, session, seen, moves.undo)
    for pod in moves.begin:
        await _begin(ctx, session, seen, pod)
    if moves.expired:
        session.retry_drain_at_s = seen.now_s + RETRY_DRAIN_S
        names = ", ".join(pod.name for pod in moves.expired)
        text = f"not empty in time, taken back into service: {names}; tried again later"
        await ctx.events.tell(
            dict(seen.service), Note("DrainTimeout", "ScaleIn", text, warning=True)
        )
    if not is_out:
        await _order(ctx, session, seen, moves)


async def retrieve(
    ctx: Context, session: Session, seen: Observed, strays: tuple[PodView, ...]
) -> None:
    """Take pods back into service that somebody else drains, and tell.

    Whoever drains again and again is answered at most once a minute, and told of as seldom. An
    engine that was told to end refuses: it drains before it does, and is left alone from then on.
    """
    now_s, known = seen.now_s, {pod.incarnation for pod in seen.pods}
    session.ending &= known
    session.strays = {k: v for k, v in session.strays.items() if now_s - v[1] <= STRAYED_S}
    due = due_strays(session, strays, now_s)
    _contest(session, strays, now_s)
    retrieved = [pod for pod in due if await _undrain(ctx, session, pod) is None]
    session.strays |= {pod.uid: (pod.name, now_s) for pod in retrieved}
    if retrieved and now_s - session.strays_told_s >= TELL_EVERY_S:
        session.strays_told_s = now_s
        names = ", ".join(pod.name for pod in retrieved)
        text = f"drained by someone else, taken back into service: {names}"
        await ctx.events.tell(dict(seen.service), Note("ForeignDrain", "Undo", text, warning=True))


def due_strays(session: Session, strays: tuple[PodView, ...], now_s: float) -> tuple[PodView, ...]:
    """Those that are to be taken back now."""
    return tuple(
        pod
        for pod in strays
        if session.contests.get(_contested(pod), contest.Contest()).is_due(now_s)
    )


def _contest(session: Session, strays: tuple[PodView, ...], now_s: float) -> None:
    for pod in strays:
        known = session.contests.get(_contested(pod), contest.Contest())
        session.contests[_contested(pod)] = known.after(now_s)


def _contested(pod: PodView) -> contest.Key:
    return POD.kind, pod.incarnation or pod.uid, contest.SOMEONE


async def _begin(ctx: Context, session: Session, seen: Observed, pod: PodView) -> None:
    if pod.draining_since_s is None:
        since = datetime.fromtimestamp(seen.now_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        await _mark(
            ctx, seen, pod, {ANNOTATION_DRAINING: since, ANNOTATION_DELETION_COST: LOWEST_COST}
        )
    ctx.client.guard()
    try:
        await ctx.engines.drain(pod.ip or "", session.token or "")
    except EngineError as error:
        session.note(error)
        log.info("pod %s was not told to drain: %s", pod.name, error)


async def _take_all_back(
    ctx: Context, session: Session, seen: Observed, pods: Iterable[PodView]
) -> None:
    """All at once: each may take as long as an engine that does not answer."""
    tries = (_take_back(ctx, session, seen, pod) for pod in pods)
    for failure in await asyncio.gather(*tries, return_exceptions=True):
        if failure is not None:
            raise failure


async def _take_back(ctx: Context, session: Session, seen: Observed, pod: PodView) -> None:
    error = await _undrain(ctx, session, pod)
    # One that is ending begins anew without a drain: its mark has had its day. So it has with one
    # that neither serves nor answers: it leaves as one that is stuck, or is found to drain still.
    is_lost = isinstance(error, UnreachableError) and not pod.ready
    if error is None or is_lost or pod.incarnation in session.ending:
        await _mark(ctx, seen, pod, {ANNOTATION_DRAINING: None, ANNOTATION_DELETION_COST: None})


async def _undrain(ctx: Context, session: Session, pod: PodView) -> EngineError | None:
    """Tell an engine to take requests again; why it does not, None where it does."""
    ctx.client.guard()
    try:
        if pod.ip is not None:
            await ctx.engines.undo_drain(pod.ip, session.token or "")
    except EngineError as error:
        session.note(error)
        if isinstance(error, RefusedError) and error.status == IS_ENDING:
            session.ending.add(pod.incarnation)
        log.info("pod %s was not taken back: %s", pod.name, error)
        return error
    return None


async def _mark(
    ctx: Context, seen: Observed, pod: PodView, annotations: Mapping[str, str | None]
) -> None:
    metadata: dict[str, Any] = {"annotations": annotations, "uid": pod.uid}
    path = POD.path(seen.namespace, pod.name)
    for attempt in range(3):
        metadata["resourceVersion"] = await _version(ctx, seen, pod, fresh=attempt > 0)
        try:
            patch = {"metadata": metadata}
            item = await ctx.client.write("PATCH", path, patch, content_type=MERGE_PATCH)
        except ConflictError:
            # The kubelet writes a pod's status often; another UID would be another pod.
            continue
        except NotFoundError:
            return
        ctx.store.put(POD, {"apiVersion": "v1", "kind": "Pod", **item})
        return
    raise ConflictError(f"pod {pod.name} keeps changing")


async def _version(ctx: Context, seen: Observed, pod: PodView, *, fresh: bool) -> str:
    if not fresh:
        return pod.version
    item = await fetch(ctx.client, POD, seen.namespace, pod.name)
    if item is None or item["metadata"]["uid"] != pod.uid:
        raise ConflictError(f"pod {pod.name} was replaced")
    return str(item["metadata"]["resourceVersion"])


async def _order(ctx: Context, session: Session, seen: Observed, moves: Moves) -> None:
    """The one write to `/scale`, where there is one."""
    if moves.scale is None:
        return
    await _scale(ctx, seen, moves.scale)
    session.is_ordered = moves.scale != seen.scale
    session.target = moves.scale
    session.expected_gone = {pod.uid: pod.name for pod in moves.victims}


async def _scale(ctx: Context, seen: Observed, replicas: int) -> None:
    scale = await read_scale(ctx.client, seen.namespace, derive(seen.name))
    if scale.replicas != seen.scale:
        raise ConflictError(
            f"{scale.name} was scaled to {scale.replicas} by someone else meanwhile"
        )
    await write_scale(ctx.client, scale, replicas)
    # The first write of a new fleet only takes the field over: nothing is scaled by it.
    level = logging.INFO if replicas != scale.replicas else logging.DEBUG
    log.log(
        level, "scaled %s/%s from %d to %d", seen.namespace, seen.name, scale.replicas, replicas
    )
    try:
        deployment = await fetch(ctx.client, DEPLOYMENT, seen.namespace, scale.name)
    except KubeError as error:
        # It is written, and the watch tells of it too: a pass that failed now would forget it.
        log.info("%s/%s: not read after its scale: %s", seen.namespace, seen.name, error)
        return
    if deployment is not None:
        ctx.store.put(DEPLOYMENT, deployment)


async def _verify(ctx: Context, session: Session, seen: Observed) -> None:
    """Were those that left the drained ones? A wrong victim loses nothing, but is told."""
    if not session.expected_gone or seen.scale is None:
        return
    live = [pod for pod in seen.pods if pod.live]
    if len(live) > seen.scale:
        return
    left = [pod.name for pod in live if pod.uid in session.expected_gone]
    session.expected_gone = {}
    if left:
        text = f"pods left in place of the drained {', '.join(left)}; their requests ran to the end"
        await ctx.events.tell(
            dict(seen.service), Note("WrongVictim", "ScaleIn", text, warning=True)
        )
