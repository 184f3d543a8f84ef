"""A round of measuring one object's pods, which no worker waits for longer than a moment.

A pod or a Prometheus server that hangs would else hold a worker until it times out, and with many
objects all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from paceline_operator.kube.store import Key
from paceline_operator.metrics import Scrape, Target
from paceline_operator.reconcile.context import Context
from paceline_operator.reconcile.session import Session

GRACE_S = 1.0
"""A round that takes longer goes on alone; the object is looked at again when it ends."""


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
    left_s = session.scraped_at_s + interval_s - now_s
    return left_s if 0.0 < left_s < interval_s else interval_s


def begin(session: Session, targets: Sequence[Target], now_s: float) -> None:
    """A round over these pods."""
    session.round = asyncio.create_task(_round(session, targets, now_s))


async def end(ctx: Context, key: Key, session: Session) -> bool:
    """Take over what a round has brought; whether there was one that ended."""
    running = session.round
    if running is None:
        return False
    await asyncio.wait({running}, timeout=GRACE_S)
    if not running.done():
        running.add_done_callback(partial(_look_again, ctx, key))
        return False
    session.round = None
    session.scrape, session.scraped_at_s = running.result()
    return True


async def _round(session: Session, targets: Sequence[Target], now_s: float) -> tuple[Scrape, float]:
    return await session.scraper.scrape(targets, now_s), now_s


def _look_again(ctx: Context, key: Key, ended: asyncio.Task[tuple[Scrape, float]]) -> None:
    if not ended.cancelled():
        ctx.queue.add(key)
