"""Servers that end while a client still reads."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from starlette.types import Receive, Scope, Send

from paceline_engine.server import listeners
from paceline_engine.server.listeners import Listeners, bind

SIZE = 1_000_000


async def whole(_scope: Scope, _receive: Receive, send: Send) -> None:
    """What the system's buffers of both sides can hold."""
    headers = [(b"content-length", b"%d" % SIZE), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": bytes(SIZE)})


@asynccontextmanager
async def answered(
    write_deadline_s: float,
) -> AsyncIterator[tuple[Listeners, asyncio.StreamReader]]:
    """A server and a client that has read the beginning of its answer."""
    bound = bind("127.0.0.1", 0, "--port")
    servers = Listeners((whole, bound), write_deadline_s=write_deadline_s)
    servers.start()
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
    raw.connect(bound.getsockname())
    reader, writer = await asyncio.open_connection(sock=raw, limit=1024)
    try:
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        yield servers, reader
    finally:
        writer.transport.abort()
        await servers.stop()


async def test_the_end_waits_for_what_clients_have_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listeners, "LOOK_S", 0.001)
    async with answered(write_deadline_s=60) as (servers, reader), asyncio.timeout(20):
        waits = asyncio.create_task(servers.delivered())
        got = 0
        while got < SIZE / 2:
            assert not waits.done()
            got += len(await reader.read(10_000))
        await reader.readexactly(SIZE - got)
        await waits


async def test_the_end_does_not_wait_for_one_that_does_not_read() -> None:
    async with answered(write_deadline_s=0.1) as (servers, _), asyncio.timeout(20):
        await servers.delivered()
