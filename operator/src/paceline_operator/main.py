"""Starts the operator: settings, client, lease, probes, workers, and kopf's watches."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import time
import uuid
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp
from kubernetes_asyncio.client import Configuration
from pydantic import ValidationError

from paceline_operator import nesting, web
from paceline_operator.clock import SteadyClock
from paceline_operator.handlers import watch
from paceline_operator.kube.client import KubeClient, load_configuration
from paceline_operator.kube.errors import KubeError, LeaseLostError, UnavailableError
from paceline_operator.kube.event import EventRecorder
from paceline_operator.kube.kubeconfig import ConfigError
from paceline_operator.kube.lease import LeaderLease, LeaseTerms, boot_clock
from paceline_operator.kube.resource import SCALED_OBJECT
from paceline_operator.kube.store import Store
from paceline_operator.metrics import DirectSource, HttpFetch, PrometheusSource, Source
from paceline_operator.readiness import Health, exists, reach
from paceline_operator.reconcile.context import Context
from paceline_operator.reconcile.engine_admin import EngineAdmin
from paceline_operator.reconcile.inheritance import take_over_changes
from paceline_operator.reconcile.instruments import Instruments
from paceline_operator.reconcile.queue import WorkQueue
from paceline_operator.reconcile.recording import (
    Recorder,
    RecordFile,
    ThreadRecorder,
    Unrecorded,
)
from paceline_operator.reconcile.workers import Workers
from paceline_operator.settings import Environment, Settings, SettingsError, load

log = logging.getLogger("paceline_operator")

EXIT_BAD_START = 2
EXIT_LEASE_LOST = 3
EXIT_API = 4
RECORDED_WITHIN_S = 2.0
ENDED_WITHIN_S = 20.0
MEGABYTE = 1 << 20


def main() -> None:
    """Run until told to stop.

    Exit code 2 for a bad start, 3 for a lost lease, 4 where the API server's answer ended it.
    """
    level = os.environ.get("PACELINE_LOG_LEVEL", "INFO").upper()
    if level not in logging.getLevelNamesMapping():
        said = f"environment: PACELINE_LOG_LEVEL: {level!r} is no level; give one such as INFO"
        sys.exit(_fail(said))
    logging.basicConfig(
        level=level,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    logging.getLogger("kopf").setLevel(logging.WARNING)
    for handler in logging.getLogger().handlers:
        handler.addFilter(watch.WithoutTrace())
    nesting.allow()
    try:
        environment = Environment()
        settings = load(environment.paceline_settings)
        asyncio.run(run(settings, environment))
    except (SettingsError, ConfigError, OSError) as error:
        sys.exit(_fail(str(error)))
    except ValidationError as error:
        first = error.errors()[0]
        sys.exit(_fail(f"environment: {first['loc'][0]}: {first['msg']}"))
    except (KubeError, watch.WatchEndedError) as error:
        sys.exit(_fail(str(error), EXIT_API))


def _fail(message: str, code: int = EXIT_BAD_START) -> int:
    print(f"paceline-operator: {message}", file=sys.stderr)
    return code


async def run(settings: Settings, environment: Environment) -> None:
    """The whole life of the process.

    Raises:
        ConfigError: There is no cluster to talk to.
        OSError: The HTTP port is taken.
    """
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    configuration = await load_configuration()
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(KubeClient(configuration))
        session = await stack.enter_async_context(_engine_session())
        clock = SteadyClock(boot_clock, time.time)
        ctx = _context(settings, environment, client, session, clock)
        lease = LeaderLease(client, _terms(settings, environment))
        health = Health(ctx.queue, lease, clock)
        app = web.application(ctx.instruments.registry, health.alive, health.ready)
        runner = await web.serve(app, environment.paceline_http_port)
        stack.push_async_callback(runner.cleanup)
        try:
            if await _until(stop, _stand_by(client, health, lease, settings)):
                client.guard = lease.check
                ctx.recorder = _recorder(settings, ctx.instruments)
                await _lead(ctx, lease, settings, configuration, stop)
        finally:
            # Before another process may lead, and write into the same directory.
            await asyncio.to_thread(ctx.recorder.end, RECORDED_WITHIN_S)
            await lease.release()


async def _stand_by(
    client: KubeClient, health: Health, lease: LeaderLease, settings: Settings
) -> None:
    await reach(client, health, settings.watch_namespaces)
    await lease.acquire()


async def _lead(
    ctx: Context,
    lease: LeaderLease,
    settings: Settings,
    configuration: Configuration,
    stop: asyncio.Event,
) -> None:
    """Work while leading."""
    keeping = asyncio.create_task(_keep(lease))
    try:
        if await _until(stop, _learn_kinds(ctx)):
            await _work_and_watch(ctx, settings, configuration, stop)
    finally:
        keeping.cancel()
        await asyncio.wait({keeping})


async def _learn_kinds(ctx: Context) -> None:
    """Ask until it is known which kinds there are to watch."""
    while True:
        try:
            ctx.has_keda = await exists(ctx.client, SCALED_OBJECT)
        except UnavailableError as error:
            log.warning("whether there are ScaledObjects is not known yet: %s", error)
            await asyncio.sleep(1.0)
        else:
            return


async def _work_and_watch(
    ctx: Context, settings: Settings, configuration: Configuration, stop: asyncio.Event
) -> None:
    """Both until one ends, or until told to stop; kopf takes the signals over.

    Raises:
        WatchEndedError: kopf has given a watch up.
    """
    registry = watch.registry(ctx.store, ctx.queue, configuration, has_keda=ctx.has_keda)
    working = asyncio.create_task(_work(ctx, settings))
    watching = asyncio.create_task(watch.run(registry, settings.watch_namespaces))
    stopping = asyncio.create_task(stop.wait())
    tasks = {watching, working, stopping}
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    if working.done() and not working.cancelled() and working.exception() is None:
        # kopf ends whatever was begun after it, before it says why it ends itself.
        await asyncio.wait({watching}, timeout=ENDED_WITHIN_S)
    for task in tasks:
        task.cancel()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(result, Exception):
            raise result


async def _keep(lease: LeaderLease) -> None:
    try:
        await lease.keep()
    except Exception as error:
        # Whatever ended it: nobody renews now, so another process will lead.
        log.exception("the lease is not kept any more")
        _leave(error)


async def _work(ctx: Context, settings: Settings) -> None:
    try:
        await _taken_over(ctx, settings)
        await Workers(ctx, settings.workers).run()
    except* LeaseLostError as group:
        _leave(group.exceptions[0])


async def _taken_over(ctx: Context, settings: Settings) -> None:
    """Nothing is changed before it is known what was changed lately."""
    while True:
        try:
            await take_over_changes(ctx, settings.watch_namespaces)
        except KubeError as error:
            log.warning("what was changed in the last minute is not known yet: %s", error)
            await asyncio.sleep(1.0)
        else:
            return


def _leave(error: BaseException) -> None:
    # Another process may lead in a moment: nothing may run on, not even an orderly stop.
    log.critical("%s: this process ends now", error)
    logging.shutdown()
    os._exit(EXIT_LEASE_LOST)


async def _until(stop: asyncio.Event, work: Coroutine[None, None, None]) -> bool:
    """Await `work` unless told to stop first; whether it was done."""
    doing = asyncio.create_task(work)
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({doing, stopping}, return_when=asyncio.FIRST_COMPLETED)
    for task in (doing, stopping):
        task.cancel()
    await asyncio.wait({doing, stopping})
    if stop.is_set():
        return False
    doing.result()
    return True


def _engine_session() -> aiohttp.ClientSession:
    # Pods are asked by address; names (of Prometheus) are looked up again after 10 s.
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=256))


def _context(
    settings: Settings,
    environment: Environment,
    client: KubeClient,
    session: aiohttp.ClientSession,
    clock: SteadyClock,
) -> Context:
    instance = environment.pod_name or socket.gethostname()
    return Context(
        client=client,
        engines=EngineAdmin(session),
        source=_source(settings, session),
        store=Store(),
        queue=WorkQueue(time.monotonic),
        events=EventRecorder(client, instance, clock),
        platform=settings.platform(),
        max_mode=settings.max_mode,
        most_changes=settings.blast_radius.limits(),
        clock=clock,
        instruments=Instruments(),
    )


def _source(settings: Settings, session: aiohttp.ClientSession) -> Source:
    server = settings.metrics.server
    if server is None:
        return DirectSource(HttpFetch(session))
    log.info("engines' metrics come from Prometheus at %s", server.url)
    return PrometheusSource(session, server)


def _recorder(settings: Settings, instruments: Instruments) -> Recorder:
    """Begun by the leader alone: another process may share the directory."""
    where = settings.recording
    if not where.directory:
        return Unrecorded()
    file = RecordFile(Path(where.directory), where.max_megabytes * MEGABYTE)
    return ThreadRecorder(file, instruments.unrecorded, time.monotonic)


def _terms(settings: Settings, environment: Environment) -> LeaseTerms:
    identity = environment.pod_name or socket.gethostname()
    return LeaseTerms(
        namespace=settings.lease_namespace or environment.pod_namespace,
        name=settings.lease_name,
        identity=f"{identity}_{uuid.uuid4().hex[:8]}",
        duration_s=environment.paceline_lease_seconds,
        deadline_s=environment.paceline_lease_seconds * 2 / 3,
        renew_s=environment.paceline_lease_seconds / 7.5,
    )


if __name__ == "__main__":
    main()
