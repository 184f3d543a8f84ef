"""Sends the agreed live values to engines that run with others."""

from __future__ import annotations

import asyncio
import logging

from paceline_operator.domain import tunables
from paceline_operator.domain.pods import PodView
from paceline_operator.domain.tunables import Agreed
from paceline_operator.reconcile.context import Context
from paceline_operator.reconcile.engine_admin import EngineError, RefusedError
from paceline_operator.reconcile.session import Session

log = logging.getLogger(__name__)


async def push(
    ctx: Context, session: Session, agreed: Agreed, fleet: tuple[PodView, ...], now_s: float
) -> int:
    """Set the values on pods at once; returns how many acknowledged.

    The revision must stand in the status already. An engine that knows a newer one refuses,
    is asked for its report, and the next pass goes on from there.
    """
    ctx.client.guard()
    results = await asyncio.gather(
        *(_one(ctx, session, agreed.of_pod(pod.uid), pod, now_s) for pod in fleet)
    )
    return sum(results)


async def _one(ctx: Context, session: Session, agreed: Agreed, pod: PodView, now_s: float) -> bool:
    token, ip = session.token or "", pod.ip or ""
    try:
        report = await ctx.engines.set_tunables(ip, token, tunables.body(agreed))
    except RefusedError as error:
        log.warning("pod %s refused revision %d: %s", pod.name, agreed.revision, error)
        session.reports.pop(pod.incarnation, None)
        session.note(error)
        session.wait(pod.incarnation, now_s)
        return False
    except EngineError as error:
        session.wait(pod.incarnation, now_s)
        log.info("pod %s did not take revision %d: %s", pod.name, agreed.revision, error)
        return False
    session.reports[pod.incarnation] = report
    if not tunables.runs_with(report, agreed):
        log.warning("pod %s accepted revision %d and ignored it", pod.name, agreed.revision)
        session.wait(pod.incarnation, now_s)
        return False
    session.waits.pop(pod.incarnation, None)
    return True
