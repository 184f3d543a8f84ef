from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.e2e.load.serving import Handler, Serve


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    servers: list[TestServer] = []

    async def start(handler: Handler) -> str:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", handler)
        app.router.add_post("/v1/completions", handler)
        server = TestServer(app)
        servers.append(server)
        await server.start_server()
        return str(server.make_url(""))

    yield start
    for server in servers:
        await server.close()
