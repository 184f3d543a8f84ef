"""The admin port: live knobs and the drain, behind a bearer token."""

from __future__ import annotations

import asyncio

from fastapi import FastAPI, Request
from starlette.responses import Response

from paceline_engine.client import EngineDeadError
from paceline_engine.server.access import TokenFile, given_token
from paceline_engine.server.admin_wire import (
    AdminModel,
    DrainResponse,
    Knobs,
    TunablesRequest,
    TunablesResponse,
)
from paceline_engine.server.body import read_body
from paceline_engine.server.cache_wire import CacheCleared, selection
from paceline_engine.server.error_routes import bare_app
from paceline_engine.server.errors import ConflictError, UnauthorizedError, UnavailableError
from paceline_engine.server.flags import AdminPath
from paceline_engine.server.memory_wire import memory_response
from paceline_engine.server.service import Service
from paceline_engine.server.settings import BODY_DEADLINE_S
from paceline_engine.server.validation import parse_body

MAX_BODY_BYTES = 64 * 1024


def create_admin(service: Service, tokens: TokenFile | None) -> FastAPI:
    """Builds the application of the admin port.

    Args:
        service: What it steers.
        tokens: Who may; None only where the port is bound to loopback.
    """
    app = bare_app("Paceline engine admin")
    routes = _Routes(service, tokens)
    for path, method, endpoint in (
        (AdminPath.TUNABLES, "GET", routes.tunables),
        (AdminPath.TUNABLES, "PUT", routes.put_tunables),
        (AdminPath.DRAIN, "GET", routes.drain),
        (AdminPath.DRAIN, "POST", routes.begin_drain),
        (AdminPath.DRAIN, "DELETE", routes.undo_drain),
        (AdminPath.CACHE, "DELETE", routes.clear_cache),
        (AdminPath.MEMORY, "GET", routes.memory),
    ):
        app.add_api_route(path, endpoint, methods=[method], response_model=None)
    return app


class _Routes:
    def __init__(self, service: Service, tokens: TokenFile | None) -> None:
        self._service = service
        self._tokens = tokens
        self._one_put_at_a_time = asyncio.Lock()

    async def tunables(self, request: Request) -> Response:
        """GET /admin/tunables."""
        self._check_token(request)
        return _json(self._report())

    async def put_tunables(self, request: Request) -> Response:
        """PUT /admin/tunables: applied between two steps, then answered."""
        self._check_token(request)
        wanted = parse_body(
            TunablesRequest,
            await read_body(
                request, MAX_BODY_BYTES, BODY_DEADLINE_S, readings=self._service.readings
            ),
        )
        async with self._one_put_at_a_time:
            if self._service.tunables.is_new(wanted):
                await self._apply(wanted)
        return _json(self._report())

    async def drain(self, request: Request) -> Response:
        """GET /admin/drain."""
        self._check_token(request)
        return self._drain_state()

    async def begin_drain(self, request: Request) -> Response:
        """POST /admin/drain: unready now, refusing after the grace."""
        self._check_token(request)
        self._service.drain.begin()
        return self._drain_state()

    async def undo_drain(self, request: Request) -> Response:
        """DELETE /admin/drain."""
        self._check_token(request)
        if not self._service.drain.undo():
            raise ConflictError("the process is ending; this drain cannot be undone")
        return self._drain_state()

    async def memory(self, request: Request) -> Response:
        """GET /admin/memory."""
        self._check_token(request)
        watch = self._service.memory
        return _json(memory_response(watch, watch.read(self._service.client.pid)))

    async def clear_cache(self, request: Request) -> Response:
        """DELETE /admin/cache: what matches all parts of the query, or everything."""
        self._check_token(request)
        chosen = selection(request.scope["query_string"])
        self._check_serving()
        try:
            cleared = await self._service.client.clear_cache(**chosen)
        except EngineDeadError as error:
            raise UnavailableError(f"the engine is gone: {error}") from error
        return _json(CacheCleared(blocks=cleared.blocks, tokens=cleared.tokens, held=cleared.held))

    def _check_serving(self) -> None:
        if not self._service.is_serving:
            raise UnavailableError("the engine is loading or dead; retry", code="not_ready")

    def _check_token(self, request: Request) -> None:
        if self._tokens is None:
            return
        if not self._tokens.accepts(given_token(request.headers)):
            raise UnauthorizedError("the bearer token is missing or wrong", code="unauthorized")

    async def _apply(self, wanted: TunablesRequest) -> None:
        self._check_serving()
        try:
            applied = await self._service.client.apply_tunables(
                max_num_batched_tokens=wanted.max_num_batched_tokens,
                max_num_running_seqs=wanted.max_num_running_seqs,
                step_time_target_ms=wanted.step_time_target_ms or 0.0,
            )
        except EngineDeadError as error:
            raise UnavailableError(f"the engine is gone: {error}") from error
        self._service.tunables.accept(
            wanted,
            Knobs(
                max_num_batched_tokens=applied.max_num_batched_tokens,
                max_num_running_seqs=applied.max_num_running_seqs,
                step_time_target_ms=applied.step_time_target_ms or None,
            ),
        )
        self._service.metering.board.replace(wanted.slos)

    def _report(self) -> TunablesResponse:
        state = self._service.client.state
        reported = Knobs(
            max_num_batched_tokens=state.max_num_batched_tokens,
            max_num_running_seqs=state.max_num_running_seqs,
            step_time_target_ms=state.step_time_target_ms or None,
        )
        return self._service.tunables.report(reported)

    def _drain_state(self) -> Response:
        running = self._service.calls.running
        return _json(
            DrainResponse(
                phase=self._service.drain.phase.value,
                running_requests=running,
                empty=running == 0,
                terminal=self._service.drain.terminal,
            )
        )


def _json(body: AdminModel) -> Response:
    return Response(body.model_dump_json(by_alias=True), media_type="application/json")
