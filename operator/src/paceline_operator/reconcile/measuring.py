"""A round of measuring one object's pods, which no worker waits for longer than a moment.

A pod or a Prometheus server that hangs would else hold a worker until it times out, and with many
objects all of them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from functools import partial

from paceline_operator.kube.store import Key
from paceline_operator.metrics import Target
from paceline_operator.reconcile.context import Context
from paceline_operator.reconcile.session import NEVER, Round, Session

GRACE_S, SHORT_GRACE_S = 1.0, 0.05
"""A round that takes longer goes on alone; the object is looked at again when it ends. Where the
last one took longer than the first of the two, the next is waited for no longer than the second:
many fleets with a pod that hangs would else hold all workers."""


def is_due(ctx: Context, session: Session, now_s: float) -> bool:
    """Whether a round is to begin: none is under way, and the last is long enough ago."""
    waited_s = now_s - session.scraped_at_s
    return session.round is None and waited_s >= ctx.source.interval_s - 0.05


def due_in(ctx: Context, session: Session, now_s: float) -> float:
    """Time until a round is to begin, whatever has called for the pass that ends now.

    An interval that was stretched meanwhile, or an event, makes passes that are early for it: a
    whole interval from there would be a round left out.
    """
    interval_s = ctx.source.interval_s
    if session.round is not None or session.scraped_at_s == NEVER:
        return interval_s  # the end of a round calls for a pass of its own
    return min(interval_s, max(0.0, session.scraped_at_s + interval_s - now_s))


def begin(session: Session, targets: Sequence[Target], now_s: float) -> None:
    """A round over these pods."""
    session.round = asyncio.create_task(_round(session, targets, now_s))


async def end(ctx: Context, key: Key, session: Session) -> bool:
    """Take over what a round has brought; whether there was one that ended."""
    running = session.round
    if running is None:
        return False
    grace_s = SHORT_GRACE_S if session.is_slow else GRACE_S
    await asyncio.wait({running}, timeout=grace_s)
    if not running.done():
        running.add_done_callback(partial(_look_again, ctx, key))
        return False
    session.round = None
    session.scrape, session.scraped_at_s, took_s = running.result()
    session.is_slow, session.undecided = took_s > GRACE_S, True
    return True


async def _round(session: Session, targets: Sequence[Target], now_s: float) -> Round:
    began_s = time.monotonic()
    scrape = await session.scraper.scrape(targets, now_s)
    return scrape, now_s, time.monotonic() - began_s


def _look_again(ctx: Context, key: Key, ended: asyncio.Task[Round]) -> None:
    if not ended.cancelled():
        ctx.queue.add(key)
