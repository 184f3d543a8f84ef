"""The server process from its start to its end: engine, ports, signals, drain."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from paceline_engine.client import EngineClient, EngineDeadError
from paceline_engine.config import EngineConfig
from paceline_engine.message import StepStats
from paceline_engine.server.access import TokenFile
from paceline_engine.server.admin import create_admin
from paceline_engine.server.admin_wire import TunablesRequest
from paceline_engine.server.admission import Admission
from paceline_engine.server.api import create_api
from paceline_engine.server.calls import Calls
from paceline_engine.server.descriptors import connections_each, raise_limit
from paceline_engine.server.drain import Drain
from paceline_engine.server.envelope import Envelope
from paceline_engine.server.flags import EXIT_BAD_START
from paceline_engine.server.health import create_health
from paceline_engine.server.listeners import Listeners
from paceline_engine.server.liveness import RecentSteps
from paceline_engine.server.loop_metrics import LoopCollector
from paceline_engine.server.memory_metrics import MemoryCollector
from paceline_engine.server.memory_watch import MemoryWatch
from paceline_engine.server.metric_families import RequestMetrics
from paceline_engine.server.prefill_rate import PrefillRate
from paceline_engine.server.queue_limit import queue_limit
from paceline_engine.server.request_log import RequestLog, RequestLogError, open_request_log
from paceline_engine.server.request_meter import Metering
from paceline_engine.server.service import Service
from paceline_engine.server.settings import ServerSettings
from paceline_engine.server.slo import SloBoard
from paceline_engine.server.tunables import Tunables
from paceline_engine.tokenizer import Tokenizer

EXIT_ENGINE_DIED: Final = 1
DEATH_LINGER_S: Final = 5.0  # how long the ports say that the engine is dead before the end

_log = logging.getLogger(__name__)


class End(StrEnum):
    """Why the process ends."""

    CANNOT_START = "cannot start"
    ENGINE_DIED = "engine died"
    TOLD = "told"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Bound sockets."""

    api: socket.socket
    health: socket.socket
    admin: socket.socket


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Who may call; None is anyone."""

    api_keys: TokenFile | None
    admin_tokens: TokenFile | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Startup:
    """Everything decided and opened before the event loop runs."""

    settings: ServerSettings
    config: EngineConfig
    memory: MemoryWatch
    tokenizer: Tokenizer
    start_values: TunablesRequest | None
    ports: Ports
    access: Access


def create_service(
    startup: Startup,
    client: EngineClient,
    request_log: RequestLog | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Service:
    """Wires the parts together; must run inside the event loop.

    Args:
        startup: What was decided before.
        client: The engine.
        request_log: Where ended requests are written to; None writes none.
        clock: Monotonic seconds, of the same clock as the event loop's timers.
    """
    settings, config = startup.settings, startup.config
    tunables = Tunables(config, startup.start_values)
    metrics = RequestMetrics(settings.model_name)
    board = SloBoard(settings.model_name)
    board.replace(tunables.slos)
    loop_metrics = _loop_metrics(startup, client, tunables)
    for collector in (
        board,
        loop_metrics,
        MemoryCollector(settings.model_name, startup.memory, lambda: client.pid),
    ):
        metrics.registry.register(collector)
    prefill_rate = PrefillRate(lambda: client.state.max_num_batched_tokens, config.step_time_law)

    recent_steps = RecentSteps()

    def observe(step: StepStats) -> None:
        loop_metrics.steps.add(step)
        recent_steps.add(step.duration_s, step.prefill_tokens + step.decode_rows, clock())
        prefill_rate.add(step)

    client.on_step = observe
    loop = asyncio.get_running_loop()
    return Service(
        settings=settings,
        config=config,
        memory=startup.memory,
        tokenizer=startup.tokenizer,
        client=client,
        metering=Metering(
            metrics=metrics,
            board=board,
            clock=clock,
            call_later=loop.call_later,
            record=None if request_log is None else request_log.add,
        ),
        loop_metrics=loop_metrics,
        recent_steps=recent_steps,
        admission=_admission(settings, config, board, prefill_rate, clock),
        drain=Drain(clock, settings.drain_grace_seconds),
        tunables=tunables,
        calls=Calls(),
        clock=clock,
        wall_clock=lambda: int(time.time()),
        draw_seed=lambda: random.SystemRandom().getrandbits(63),
        created=int(time.time()),
    )


def _loop_metrics(startup: Startup, client: EngineClient, tunables: Tunables) -> LoopCollector:
    return LoopCollector(
        startup.settings.model_name,
        state=lambda: client.state,
        revision=lambda: tunables.revision,
        block_size=startup.config.block_size,
        num_kv_blocks=startup.config.num_kv_blocks,
    )


def _admission(
    settings: ServerSettings,
    config: EngineConfig,
    board: SloBoard,
    first_rate: PrefillRate,
    clock: Callable[[], float],
) -> Admission:
    return Admission(
        settings.max_queued_requests,
        settings.max_queued_tokens,
        max_kv_tokens=settings.max_projected_kv * config.kv_capacity_tokens,
        queue_limit=queue_limit(settings.max_queue_seconds, board),
        first_rate=first_rate,
        tenant_weights=dict(config.tenant_weights) if settings.trust_tenant_header else None,
        clock=clock,
    )


async def serve(startup: Startup, client: EngineClient) -> int:
    """Runs until told to end, or until the engine dies.

    Returns:
        Exit code: 0 after a drain, 1 after the engine's death, 2 if it cannot load.
    """
    try:
        request_log = open_request_log(startup.settings.request_log)
    except RequestLogError as error:
        _log.error("%s", error)
        return EXIT_BAD_START
    try:
        return await _serve(create_service(startup, client, request_log), startup)
    finally:
        if request_log is not None:
            request_log.close()


async def _serve(service: Service, startup: Startup) -> int:
    client = service.client
    ports, access = startup.ports, startup.access
    listeners = Listeners(
        (Envelope(create_api(service, access.api_keys), service), ports.api),
        (create_health(service), ports.health),
        (create_admin(service, access.admin_tokens), ports.admin),
        write_deadline_s=startup.settings.write_deadline_seconds,
        most_connections=connections_each(raise_limit(), ports=3),
        on_refused=service.metering.metrics.connections_refused.inc,
    )
    told = _Signals(service)
    told.install()
    await client.start()
    listeners.start()
    _log.info("listening: %s", _addresses(ports))
    try:
        end = await _run(service, listeners, told)
    finally:
        service.readings.end("not_ready" if client.failed.is_set() else "draining")
        await client.stop()  # what still runs is answered as after a death
        await listeners.stop()
    return {End.CANNOT_START: EXIT_BAD_START, End.ENGINE_DIED: EXIT_ENGINE_DIED, End.TOLD: 0}[end]


class _Signals:
    """SIGTERM drains with the grace, SIGINT without; a second SIGINT ends at once."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.end = asyncio.Event()
        self.no_grace = asyncio.Event()
        self.end_now = asyncio.Event()

    def install(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._on_term)
        loop.add_signal_handler(signal.SIGINT, self._on_interrupt)

    def _on_term(self) -> None:
        _log.info("SIGTERM: draining")
        self._service.drain.begin(terminal=True)
        if not self._service.client.ready.is_set():
            self._service.drain.skip_grace()  # nobody was ever sent here
        self.end.set()

    def _on_interrupt(self) -> None:
        if self.end.is_set():
            self.end_now.set()
        self._service.drain.begin(terminal=True)
        self._service.drain.skip_grace()
        self.no_grace.set()
        self.end.set()


async def _run(service: Service, listeners: Listeners, told: _Signals) -> End:
    loading = asyncio.create_task(_load(service))
    drained = asyncio.create_task(_drained(service, listeners, told))
    died = asyncio.create_task(service.client.failed.wait())
    try:
        await asyncio.wait((drained, died), return_when=asyncio.FIRST_COMPLETED)
        if drained.done():
            return End.TOLD
        return await _on_death(service, told)
    finally:
        for task in (loading, drained, died):
            task.cancel()
        await asyncio.gather(loading, drained, died, return_exceptions=True)


async def _load(service: Service) -> None:
    began_at = service.clock()
    try:
        await service.client.wait_ready()
    except EngineDeadError:
        return  # `_on_death` says so
    _log.info("ready after %.1f s: %s", service.clock() - began_at, service.settings.model_name)


async def _drained(service: Service, listeners: Listeners, told: _Signals) -> None:
    await told.end.wait()
    ended = asyncio.create_task(_calls_ended(service, listeners, told))
    now = asyncio.create_task(told.end_now.wait())
    try:
        await asyncio.wait((ended, now), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (ended, now):
            task.cancel()
        await asyncio.gather(ended, now, return_exceptions=True)


async def _calls_ended(service: Service, listeners: Listeners, told: _Signals) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(told.no_grace.wait(), service.drain.grace_left_s)
    try:
        async with asyncio.timeout(service.settings.drain_seconds):
            await service.calls.wait_empty()
            await listeners.delivered()
    except TimeoutError:
        _log.warning("%d requests outlast the drain and are cut", service.calls.running)


async def _on_death(service: Service, told: _Signals) -> End:
    _log.error("%s", service.client.failure)
    service.readings.end("not_ready")
    if not service.client.ready.is_set():
        return End.CANNOT_START
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(told.end.wait(), DEATH_LINGER_S)
    return End.ENGINE_DIED


def _addresses(ports: Ports) -> str:
    named = {"api": ports.api, "health": ports.health, "admin": ports.admin}
    return " ".join(
        f"{name}={bound.getsockname()[0]}:{bound.getsockname()[1]}" for name, bound in named.items()
    )
