"""What a connection may send, and leave out, before anyone asks it for a key."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from starlette.types import Receive, Scope, Send

from paceline_engine.server import connection
from paceline_engine.server.listeners import Listeners, bind

WITHIN_S = 20
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with the length of path and body, after the time that the path names."""
    size, more = 0, True
    while more:
        message = await receive()
        size, more = size + len(message.get("body", b"")), message.get("more_body", False)
    if scope["path"] == "/slow":
        await asyncio.sleep(0.5)
    text = b"%d" % size
    headers = [(b"content-length", b"%d" % len(text))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": text})


@asynccontextmanager
async def connected() -> AsyncIterator[Streams]:
    bound = bind("127.0.0.1", 0, "--port")
    listeners = Listeners((echo, bound))
    listeners.start()
    reader, writer = await asyncio.open_connection(*bound.getsockname())
    try:
        yield reader, writer
    finally:
        writer.transport.abort()
        await listeners.stop()


async def answer(streams: Streams) -> tuple[int, bytes]:
    """Status and body of the next answer."""
    async with asyncio.timeout(WITHIN_S):
        head = await streams[0].readuntil(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        length = next(int(line[15:]) for line in lines if line.startswith(b"content-length:"))
        return int(head.split()[1]), await streams[0].readexactly(length)


async def refusal(streams: Streams) -> tuple[int, str]:
    """Status and code of the last answer, after which the connection is closed."""
    status, body = await answer(streams)
    async with asyncio.timeout(WITHIN_S):
        assert await streams[0].read() == b""
    return status, json.loads(body)["error"]["code"]


@pytest.mark.behaviour(
    "Headers above 64 KiB are refused, whole or not, before any key is read",
    report="uvicorn with httptools: a request's head may be of any size",
)
@pytest.mark.parametrize(
    ("start", "end"),
    [
        (b"GET / HTTP/1.1\r\nx: ", b""),
        (b"GET / HTTP/1.1\r\nx: ", b"\r\n\r\n"),
        (b"GET / HTTP/1.1\r\nx", b""),
        (b"GET / HTTP/1.1\r\nx", b": y\r\n\r\n"),
        (b"GET /", b" HTTP/1.1\r\n\r\n"),
    ],
)
async def test_a_large_head(start: bytes, end: bytes) -> None:
    async with connected() as streams:
        for part in (start, b"a" * 40_000, b"a" * 40_000, end):
            streams[1].write(part)
        assert await refusal(streams) == (431, "headers_too_large")


@pytest.mark.parametrize(
    "head", [b"GET / HTTP/1.1\r\nx: " + b"a" * 70_000 + b"\r\n\r\n", b"\r\n" * 40_000]
)
async def test_a_large_head_in_one_piece(head: bytes) -> None:
    async with connected() as streams:
        streams[1].write(head)
        assert await refusal(streams) == (431, "headers_too_large")


async def test_bodies_and_pipelined_calls_are_no_head() -> None:
    """Bodies of any size and many small calls in one piece, ended by the begin of another."""
    small = b"GET / HTTP/1.1\r\nx: " + b"a" * 900 + b"\r\n\r\n"
    async with connected() as streams:
        for _ in range(2):
            body = b"b" * 200_000
            streams[1].write(b"POST / HTTP/1.1\r\ncontent-length: 200000\r\n\r\n" + body)
            assert await answer(streams) == (200, b"200000")
        streams[1].write(small * 100 + small[:20])
        for _ in range(100):
            assert await answer(streams) == (200, b"0")
        streams[1].write(small[20:])
        assert await answer(streams) == (200, b"0")


@pytest.mark.behaviour(
    "A connection that does not finish its headers, or says nothing, is closed in time",
    report="uvicorn: a client that opens connections and is silent holds them for ever",
)
@pytest.mark.parametrize("sent", [b"G", b"GET / HTTP/1.1\r\nx: y\r\n", b"\r\n"])
async def test_half_a_head(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HEAD_DEADLINE_S", 0.2)
    async with connected() as streams:
        streams[1].write(b"GET / HTTP/1.1\r\n\r\n")
        assert await answer(streams) == (200, b"0")
        streams[1].write(sent)
        assert await refusal(streams) == (408, "headers_timeout")


@pytest.mark.parametrize("calls", [0, 1])
async def test_silence(calls: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "IDLE_CONNECTION_S", 0.2)
    async with connected() as streams:
        for _ in range(calls):
            streams[1].write(b"GET / HTTP/1.1\r\n\r\n")
            assert await answer(streams) == (200, b"0")
        async with asyncio.timeout(WITHIN_S):
            assert await streams[0].read() == b""


async def test_no_answer_is_cut_by_what_comes_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither limit of time counts while an answer is in progress."""
    monkeypatch.setattr(connection, "IDLE_CONNECTION_S", 0.2)
    monkeypatch.setattr(connection, "HEAD_DEADLINE_S", 0.2)
    async with connected() as streams:
        streams[1].write(b"GET /slow HTTP/1.1\r\n\r\nGET /")
        assert await answer(streams) == (200, b"0")
        assert await refusal(streams) == (408, "headers_timeout")
