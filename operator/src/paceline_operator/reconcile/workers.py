"""Workers that take keys from the queue, make a pass over each, and ask for the next."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass, field

from paceline_operator.kube.errors import (
    ConflictError,
    KubeError,
    LeaseLostError,
    NotFoundError,
    UnavailableError,
)
from paceline_operator.kube.store import Key
from paceline_operator.metrics import SCRAPE_INTERVAL_S
from paceline_operator.reconcile import defect
from paceline_operator.reconcile.backoff import backoff_s
from paceline_operator.reconcile.context import Context
from paceline_operator.reconcile.pace import Pace
from paceline_operator.reconcile.session import NEVER
from paceline_operator.reconcile.tick import tick

log = logging.getLogger(__name__)

FIRST_BACKOFF_S = 0.5
MAX_BACKOFF_S, MEASURED_BACKOFF_S = 60.0, 10.0
CONFLICTS_BY_CHANCE = 3
DEFECTS_TOLD_FROM = 2


@dataclass(slots=True)
class Workers:
    """A fixed number of workers over one context."""

    ctx: Context
    count: int
    _failures: dict[Key, int] = field(default_factory=dict)
    _defects: dict[Key, int] = field(default_factory=dict)

    async def run(self) -> None:
        """Work until cancelled, or until the lease is lost.

        Raises:
            LeaseLostError: This process may not write any more.
        """
        async with asyncio.TaskGroup() as group:
            ctx = self.ctx
            group.create_task(Pace(ctx.source, ctx.queue.latest_s, ctx.instruments).keep())
            for _ in range(self.count):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            key = await self.ctx.queue.get()
            try:
                delay = await self._pass(key)
            finally:
                self.ctx.queue.done(key)
            self.ctx.instruments.queue_depth.set(len(self.ctx.queue))
            if delay is not None:
                self.ctx.queue.add(key, delay)

    async def _pass(self, key: Key) -> float | None:
        """One pass; its failure is logged and only delays the next one."""
        started = time.perf_counter()
        try:
            delay = await tick(self.ctx, key)
        except LeaseLostError:
            raise
        except (ConflictError, NotFoundError) as error:
            # Who writes first is chance, and the next pass looks again; again and again is none.
            is_chance = self._failures.get(key, 0) < CONFLICTS_BY_CHANCE
            log.log(logging.DEBUG if is_chance else logging.INFO, "%s/%s: %s", *key, error)
            self.ctx.session(key).resynced_at_s = NEVER
            return self._failed(key, "conflict", self._most_s(key))
        except UnavailableError as error:
            log.warning("%s/%s: %s", *key, error)
            # A pass measures before it writes: with a server that is away that must go on.
            return self._failed(key, "unavailable", SCRAPE_INTERVAL_S)
        except KubeError as error:
            log.warning("%s/%s: %s", *key, error)
            return self._failed(key, "error", self._most_s(key))
        except Exception as error:
            # One object's defect must not stop the others; it is told and tried again.
            log.exception("%s/%s: the pass failed", *key)
            await self._tell_defect(key, error)
            return self._failed(key, "defect", self._most_s(key))
        finally:
            self.ctx.instruments.tick_seconds.observe(time.perf_counter() - started)
        self._failures.pop(key, None)
        self._defects.pop(key, None)
        self.ctx.instruments.ticks.labels("ok").inc()
        return delay

    async def _tell_defect(self, key: Key, error: Exception) -> None:
        """Say in the status what no pass gets to say; one that comes once mends itself."""
        count = self._defects[key] = self._defects.get(key, 0) + 1
        if count >= DEFECTS_TOLD_FROM:
            await defect.tell(self.ctx, key, error)

    def _most_s(self, key: Key) -> float:
        """What can be tried ever less often, must be measured on: growth is known of short gaps."""
        return MAX_BACKOFF_S if self.ctx.session(key).scrape is None else MEASURED_BACKOFF_S

    def _failed(self, key: Key, result: str, most_s: float) -> float:
        self.ctx.instruments.ticks.labels(result).inc()
        count = self._failures[key] = self._failures.get(key, 0) + 1
        return backoff_s(count, FIRST_BACKOFF_S, most_s)
