"""Why pods get no containers: their status does not say it, their events do."""

from __future__ import annotations

import logging
from dataclasses import replace

from paceline_operator.domain import pod_event
from paceline_operator.domain.pod_event import PodEvent
from paceline_operator.domain.pods import PodView, Problem
from paceline_operator.kube.errors import KubeError
from paceline_operator.kube.read import fetch_events
from paceline_operator.reconcile.context import Context
from paceline_operator.reconcile.session import Session

log = logging.getLogger(__name__)

ASK_AFTER_S = 20.0
ASK_EVERY_S = 20.0
TELL_AFTER_S = 30.0
MOST_AT_ONCE = 3
"""Pods of one fleet wait for the same thing: a few of them tell it."""


async def explained(
    ctx: Context, session: Session, namespace: str, fleet: tuple[PodView, ...], now_s: float
) -> tuple[PodView, ...]:
    """The pods, those that wait long for their containers with what their events say.

    Events are not watched: one list, by the pod's UID, now and then while it waits.
    """
    late = [pod for pod in fleet if pod.live and _waits_s(pod, now_s) > ASK_AFTER_S]
    session.causes = {p.uid: session.causes[p.uid] for p in late if p.uid in session.causes}
    due = [pod for pod in late if now_s - _asked_at_s(session, pod) >= ASK_EVERY_S]
    for pod in due[:MOST_AT_ONCE]:
        session.causes[pod.uid] = (now_s, await _event(ctx, namespace, pod))
    told = {pod.uid: _told(session, namespace, pod, now_s) for pod in late}
    return tuple(told.get(pod.uid, pod) for pod in fleet)


def _waits_s(pod: PodView, now_s: float) -> float:
    return 0.0 if pod.creating_since_s is None else now_s - pod.creating_since_s


def _asked_at_s(session: Session, pod: PodView) -> float:
    return session.causes[pod.uid][0] if pod.uid in session.causes else float("-inf")


async def _event(ctx: Context, namespace: str, pod: PodView) -> PodEvent | None:
    try:
        return pod_event.newest(await fetch_events(ctx.client, namespace, pod.uid))
    except KubeError as error:
        log.debug("events of pod %s: %s", pod.name, error)
        return None


def _told(session: Session, namespace: str, pod: PodView, now_s: float) -> PodView:
    found = session.causes[pod.uid][1] if pod.uid in session.causes else None
    if found is not None and found.warning and pod.problem is None:
        return replace(pod, problem=Problem(found.reason, found.text))
    if _waits_s(pod, now_s) < TELL_AFTER_S:
        return pod
    if found is not None:
        return replace(pod, hint=f"{pod.name} has no container yet: {found.text or found.reason}")
    return replace(
        pod,
        hint=f"the containers of {pod.name} are being created for more than {TELL_AFTER_S:.0f} s; "
        f"`kubectl describe pod {pod.name} -n {namespace}` shows why",
    )
