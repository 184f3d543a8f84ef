"""`paceline-engine serve`: reads flags and model, opens the ports, runs engine and server."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from types import FrameType
from typing import Final

import uvloop

from paceline_engine import log
from paceline_engine.client import ZmqEngineClient
from paceline_engine.planning import check_device, check_together, plan, served_name
from paceline_engine.runner.memory_limit import nearest_limit
from paceline_engine.server.access import TokenFile, TokenFileError
from paceline_engine.server.admin_wire import TunablesRequest
from paceline_engine.server.flags import COMMAND, EXIT_BAD_START, Flag
from paceline_engine.server.lifecycle import Access, Ports, Startup, serve
from paceline_engine.server.listeners import PortError, bind
from paceline_engine.server.memory_watch import MemoryWatch
from paceline_engine.server.options import OptionError, ServeOptions, parse
from paceline_engine.server.settings import ServerSettings
from paceline_engine.server.start_values import StartValuesError, read_start_values
from paceline_engine.start_error import StartError
from paceline_engine.tokenizer import TokenizerLoadError, load_tokenizer

LOOPBACK: Final = "127.0.0.1"

_log = logging.getLogger(__name__)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    signal.signal(signal.SIGTERM, _end_at_once)  # the first process of a container ignores it
    try:
        options = parse(sys.argv[1:] if arguments is None else arguments)
        log.configure(options.log_level, COMMAND)
        return _serve(options)
    except (OptionError, StartError) as error:
        print(f"{COMMAND}: {' '.join(str(error).split())}", file=sys.stderr)
        return EXIT_BAD_START


def _end_at_once(_signal: int, _frame: FrameType | None) -> None:
    """Until the server runs there is nothing to drain."""
    raise SystemExit(0)


def _serve(options: ServeOptions) -> int:
    startup = prepare(options)
    _log_decisions(options, startup)

    gc.collect()
    gc.freeze()  # what start-up made lives on: no collection need look at it, and hold up streams

    async def run() -> int:
        asyncio.get_running_loop().set_exception_handler(log.log_loop_error)
        client = ZmqEngineClient(startup.config, log_level=options.log_level)
        return await serve(startup, client)

    return uvloop.run(run())


def prepare(options: ServeOptions) -> Startup:
    """Decides and opens everything that a start needs.

    Raises:
        StartError: The first thing that stands in its way.
    """
    check_device(options)
    check_together(options)
    start_values = _start_values(options)
    try:
        tokenizer = load_tokenizer(options.model)
    except TokenizerLoadError as error:
        raise StartError(str(error)) from error
    decided = plan(options, tokenizer, start_values)
    settings = ServerSettings(
        model_name=served_name(options),
        drain_seconds=options.drain_seconds,
        drain_grace_seconds=options.drain_grace_seconds,
        max_queued_requests=options.max_queued_requests,
        max_queued_tokens=options.max_queued_tokens,
        trust_tenant_header=options.trust_tenant_header,
        max_queue_seconds=options.max_queue_seconds,
        max_projected_kv=options.max_projected_kv,
        request_log=options.request_log,
        max_body_bytes=options.max_body_bytes,
    )
    return Startup(
        settings=settings,
        config=decided.config,
        memory=MemoryWatch(decided.memory, nearest_limit),
        tokenizer=tokenizer,
        start_values=start_values,
        access=_access(options),
        ports=_ports(options),
    )


def _log_decisions(options: ServeOptions, startup: Startup) -> None:
    """Only once nothing stands in the way of a start: a refusal is one line."""
    if options.tune_for is not None:
        flags = " ".join(f"{flag}={value:g}" for flag, value in options.preset)
        _log.info("tuned for %s: %s", options.tune_for, flags or "every flag of it was given")
    planned = startup.memory.planned
    for line in planned.plan.table():
        _log.info("memory plan: %s", line)
    _log.info("memory: %s", planned.verdict)


def _start_values(options: ServeOptions) -> TunablesRequest | None:
    """What peers agreed on; a broken file is said and passed over.

    An engine with its own start values serves better than one that does not start.
    """
    if options.tunables_dir is None:
        return None
    try:
        return read_start_values(options.tunables_dir)
    except StartValuesError as error:
        _log.warning("%s; starting with the flags' values", error)
        return None


def _access(options: ServeOptions) -> Access:
    try:
        keys, tokens = (
            TokenFile(path) if path else None
            for path in (options.api_key_file, options.admin_token_file)
        )
    except TokenFileError as error:
        raise StartError(str(error)) from error
    return Access(api_keys=keys, admin_tokens=tokens)


def _ports(options: ServeOptions) -> Ports:
    """Binds the ports; without a token the admin port is for this machine only."""
    hosts = {
        Flag.PORT: (options.host, options.port),
        Flag.HEALTH_PORT: (options.host, options.health_port),
        Flag.ADMIN_PORT: (
            options.host if options.admin_token_file else LOOPBACK,
            options.admin_port,
        ),
    }
    with ExitStack() as bound:
        try:
            sockets = [bound.enter_context(bind(*hosts[flag], flag)) for flag in hosts]
        except PortError as error:
            raise StartError(str(error)) from error
        bound.pop_all()
    api, health, admin = sockets
    return Ports(api=api, health=health, admin=admin)
