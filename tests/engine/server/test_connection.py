"""What a connection may send, and leave out, before anyone asks it for a key."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import struct
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from paceline_engine.server import connection, listeners
from paceline_engine.server.listeners import Listeners, bind
from paceline_engine.server.pressure import Pressure

WITHIN_S = 20
RESET = struct.pack("ii", 1, 0)  # linger on, 0 s: close sends RST
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with the length of path and body, after the time that the path names."""
    size, more = 0, True
    while more:
        message = await receive()
        size, more = size + len(message.get("body", b"")), message.get("more_body", False)
    if scope["path"] == "/slow":
        await asyncio.sleep(0.3)
    text = b"%d" % size
    headers = [(b"content-length", b"%d" % len(text))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": text})


@asynccontextmanager
async def connected(app: ASGIApp = echo, write_deadline_s: float = 60) -> AsyncIterator[Streams]:
    bound = bind("127.0.0.1", 0, "--port")
    servers = Listeners((app, bound), write_deadline_s=write_deadline_s)
    servers.start()
    reader, writer = await asyncio.open_connection(*bound.getsockname())
    try:
        yield reader, writer
    finally:
        writer.transport.abort()
        await servers.stop()


async def answer(streams: Streams) -> tuple[int, bytes]:
    """Status and body of the next answer."""
    status, _, body = await answer_with_headers(streams)
    return status, body


async def answer_with_headers(streams: Streams) -> tuple[int, dict[bytes, bytes], bytes]:
    async with asyncio.timeout(WITHIN_S):
        first, *lines = (await streams[0].readuntil(b"\r\n\r\n")).lower().split(b"\r\n")[:-2]
        headers = dict(line.split(b": ", 1) for line in lines)
        body = await streams[0].readexactly(int(headers[b"content-length"]))
        return int(first.split()[1]), headers, body


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
        (b"GET / HTTP/1.1\r\nhost: x\r\nx: ", b""),
        (b"GET / HTTP/1.1\r\nhost: x\r\nx: ", b"\r\n\r\n"),
        (b"GET / HTTP/1.1\r\nhost: x\r\nx", b""),
        (b"GET / HTTP/1.1\r\nhost: x\r\nx", b": y\r\n\r\n"),
        (b"GET /", b" HTTP/1.1\r\nhost: x\r\n\r\n"),
    ],
)
async def test_a_large_head(start: bytes, end: bytes) -> None:
    async with connected() as streams:
        for part in (start, b"a" * 40_000, b"a" * 40_000, end):
            streams[1].write(part)
        assert await refusal(streams) == (431, "headers_too_large")


@pytest.mark.parametrize(
    "head", [b"GET / HTTP/1.1\r\nhost: x\r\nx: " + b"a" * 70_000 + b"\r\n\r\n", b"\r\n" * 40_000]
)
async def test_a_large_head_in_one_piece(head: bytes) -> None:
    async with connected() as streams:
        streams[1].write(head)
        assert await refusal(streams) == (431, "headers_too_large")


async def test_bodies_are_no_head() -> None:
    async with connected() as streams:
        for _ in range(2):
            body = b"b" * 200_000
            streams[1].write(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 200000\r\n\r\n" + body)
            assert await answer(streams) == (200, b"200000")


@pytest.mark.behaviour(
    "A connection that does not finish its headers, or says nothing, is closed in time",
    report="uvicorn: a client that opens connections and is silent holds them for ever",
)
@pytest.mark.parametrize("sent", [b"G", b"GET / HTTP/1.1\r\nhost: x\r\nx: y\r\n"])
async def test_half_a_head(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HEAD_DEADLINE_S", 0.2)
    async with connected() as streams:
        streams[1].write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        assert await answer(streams) == (200, b"0")
        streams[1].write(sent)
        assert await refusal(streams) == (408, "headers_timeout")


@pytest.mark.behaviour(
    "empty lines between requests are no request: none is answered, or waited for",
    report="own finding: a line break after a body brought an unrequested 408 half a minute later",
)
@pytest.mark.parametrize("calls", [0, 1])
async def test_an_empty_line_begins_nothing(calls: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HEAD_DEADLINE_S", 0.05)
    monkeypatch.setattr(connection, "IDLE_CONNECTION_S", 0.2)
    async with connected() as streams, asyncio.timeout(WITHIN_S):
        for _ in range(calls):
            streams[1].write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            assert await answer(streams) == (200, b"0")
        streams[1].write(b"\r\n")
        assert await streams[0].read() == b""


@pytest.mark.parametrize("calls", [0, 1])
async def test_silence(calls: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "IDLE_CONNECTION_S", 0.2)
    async with connected() as streams:
        for _ in range(calls):
            streams[1].write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            assert await answer(streams) == (200, b"0")
        async with asyncio.timeout(WITHIN_S):
            assert await streams[0].read() == b""


async def test_no_answer_is_cut_by_what_comes_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither limit of time counts while an answer is in progress; empty lines are nothing."""
    monkeypatch.setattr(connection, "IDLE_CONNECTION_S", 0.2)
    monkeypatch.setattr(connection, "HEAD_DEADLINE_S", 0.2)
    async with connected() as streams:
        streams[1].write(b"GET /slow HTTP/1.1\r\nhost: x\r\n\r\n\r\n\r\n")
        assert await answer(streams) == (200, b"0")
        streams[1].write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        assert await answer(streams) == (200, b"0")


@pytest.mark.behaviour(
    "a request that comes before its forerunner's answer ends the connection with that answer",
    report="uvicorn: a second request stops the reading, and the client's leaving is not seen",
)
@pytest.mark.parametrize(
    "later", [b"G", b"GET / HTTP/1.1\r\nhost: x\r\n\r\n" * 100, b"\x00", b"x" * 200_000]
)
async def test_a_request_before_the_answer_is_dropped(later: bytes) -> None:
    async with connected() as streams:
        streams[1].write(b"GET /slow HTTP/1.1\r\nhost: x\r\n\r\n" + later)
        status, headers, body = await answer_with_headers(streams)
        assert (status, headers[b"connection"], body) == (200, b"close", b"0")
        async with asyncio.timeout(WITHIN_S):
            assert await streams[0].read() == b""


@pytest.mark.behaviour(
    "a client that leaves is seen to leave, also where it sent more than it has answers to",
    report="uvicorn: a second request stops the reading, and the client's leaving is not seen",
)
@pytest.mark.parametrize("resets", [True, False])
@pytest.mark.parametrize(
    "later", [b"", b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n", b"x" * 99_999]
)
async def test_leaving_is_seen(later: bytes, *, resets: bool) -> None:
    began, left = asyncio.Event(), asyncio.Event()

    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x", "more_body": True})
        began.set()
        while (await receive())["type"] != "http.disconnect":
            pass
        assert scope["state"]["is_gone"]()
        left.set()

    async with connected(endless) as streams, asyncio.timeout(WITHIN_S):
        streams[1].write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        await began.wait()
        streams[1].write(later)
        await asyncio.sleep(0.02)  # so that it is read before the end is there to be seen
        if resets:
            raw: socket.socket = streams[1].get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        streams[1].close()
        await left.wait()


@pytest.mark.behaviour(
    "clients that offer another protocol, HTTP/2 in clear above all, are served over HTTP/1.1",
    report="uvicorn with httptools: the body of such a request is lost, and so is the connection",
)
@pytest.mark.parametrize(
    "offer",
    [
        b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n",
        b"Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n",
    ],
)
async def test_an_upgrade_is_ignored(offer: bytes, caplog: pytest.LogCaptureFixture) -> None:
    head = b" / HTTP/1.1\r\nhost: x\r\n" + offer
    async with connected() as streams:
        for _ in range(2):
            streams[1].write(b"POST" + head + b"content-length: 5\r\n\r\n12345")
            assert await answer(streams) == (200, b"5")
            streams[1].write(b"POST" + head + b"transfer-encoding: chunked\r\n\r\n1\r\n")
            await asyncio.sleep(0.01)
            streams[1].write(b"a\r\n2\r\nbc\r\n0\r\n\r\n")
            assert await answer(streams) == (200, b"3")
            streams[1].write(b"GET" + head + b"\r\n")
            assert await answer(streams) == (200, b"0")
    assert not caplog.records


@pytest.mark.parametrize(
    "sent",
    [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"CONNECT a:80 HTTP/1.1\r\nhost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: x\r\nx\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nno number\r\n",
    ],
)
async def test_what_is_no_request(sent: bytes) -> None:
    async with connected() as streams:
        streams[1].write(sent)
        status, body = await answer(streams)
        assert (status, json.loads(body)["error"]["type"]) == (400, "invalid_request_error")
        async with asyncio.timeout(WITHIN_S):
            assert await streams[0].read() == b""


CHUNKED = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n"


async def test_trailers_are_no_headers() -> None:
    seen: list[bytes] = []

    async def names(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive())["more_body"]:
            pass
        seen.extend(name for name, _ in scope["headers"])
        headers = [(b"content-length", b"0")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    async with connected(names) as streams:
        streams[1].write(CHUNKED + b"authorization: Bearer x\r\n\r\n")
        assert await answer(streams) == (200, b"")
    assert seen == [b"host", b"transfer-encoding"]


@pytest.mark.behaviour(
    "Trailers above 64 KiB, too, are refused before any key is read",
    report="uvicorn with httptools: trailers are kept without bound",
)
@pytest.mark.parametrize("trailer", [b"a" * 400_000, b"a: b\r\n" * 70_000])
async def test_large_trailers(trailer: bytes) -> None:
    async with connected() as streams:
        streams[1].write(CHUNKED)
        for at in range(0, len(trailer), 40_000):
            streams[1].write(trailer[at : at + 40_000])
        assert await refusal(streams) == (431, "headers_too_large")


@pytest.mark.parametrize(
    "rest",
    [b"1;e=" + b"f" * 80_000 + b"\r\na\r\n0\r\n\r\n", b"0\r\nt: " + b"u" * 66_000 + b"\r\n\r\n"],
)
async def test_what_is_beside_a_body_in_one_piece_with_it(rest: bytes) -> None:
    async with connected() as streams:
        streams[1].write(CHUNKED[:-3] + rest)
        assert await refusal(streams) == (431, "headers_too_large")


@pytest.mark.behaviour(
    "a client that says in its trailers that it sends nothing more has its connection closed",
    report="own finding: the next request was swallowed, and its client waited for half a minute",
)
async def test_a_trailer_ends_the_connection() -> None:
    async with connected() as streams:
        streams[1].write(CHUNKED + b"Connection: close\r\n\r\n")
        status, headers, body = await answer_with_headers(streams)
        assert (status, headers[b"connection"], body) == (200, b"close", b"1")
        async with asyncio.timeout(WITHIN_S):
            assert await streams[0].read() == b""


async def refuse(_scope: Scope, _receive: Receive, send: Send) -> None:
    """Answers without reading."""
    headers = [(b"content-length", b"2")]
    await send({"type": "http.response.start", "status": 401, "headers": headers})
    await send({"type": "http.response.body", "body": b"no"})


@pytest.mark.behaviour(
    "a client gets a refusal also while it still sends, and nothing of what it sends is kept",
    report="servers that close on an unread body: the client sees a reset instead of the reason",
)
@pytest.mark.parametrize("is_chunked", [True, False])
async def test_a_refusal_reaches_a_client_that_sends(*, is_chunked: bool) -> None:
    size = 20_000_000
    head = b"transfer-encoding: chunked" if is_chunked else b"content-length: %d" % size
    async with connected(refuse) as streams:
        streams[1].write(b"POST / HTTP/1.1\r\nhost: x\r\n" + head + b"\r\n\r\n")
        if is_chunked:
            streams[1].write(b"1\r\na\r\n0\r\n")
        await asyncio.sleep(0.05)  # so that the answer is out before the body
        for _ in range(20):
            streams[1].write(b"a" * (size // 20))
            await streams[1].drain()
        status, headers, body = await answer_with_headers(streams)
        assert (status, headers[b"connection"], body) == (401, b"close", b"no")


async def next_message(receive: Receive) -> str:
    kind: str = (await receive())["type"]
    return kind


class Large:
    """Answers with more than the system buffers, and notes whether the client had it."""

    size = 12_000_000

    def __init__(self) -> None:
        self.is_gone: bool | None = None
        self.ended = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        self.leaving = asyncio.create_task(next_message(receive))
        headers = [(b"content-length", b"%d" % self.size)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": bytes(self.size)})
        self.is_gone = scope["state"]["is_gone"]()
        self.ended.set()


@pytest.mark.behaviour(
    "an answer that its client does not read is given up, a whole one too",
    report="uvicorn: a closing connection keeps what was written for ever",
)
async def test_an_unread_answer_is_given_up() -> None:
    app = Large()
    async with connected(app, write_deadline_s=0.1) as streams, asyncio.timeout(WITHIN_S):
        streams[1].write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        await app.ended.wait()
        assert app.is_gone
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await streams[0].readexactly(app.size + 1)


async def test_a_slow_reader_gets_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer than the deadline, and yet something of it all the time."""
    app = Large()
    async with connected(app, write_deadline_s=0.1) as streams, asyncio.timeout(WITHIN_S):
        streams[1].write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        await streams[0].readuntil(b"\r\n\r\n")
        got = 0
        while got < app.size:
            assert app.is_gone is None or got > app.size / 4
            got += len(await streams[0].readexactly(500_000))
            await asyncio.sleep(0.02)
            assert app.is_gone is False or not app.leaving.done()
        await app.ended.wait()
        assert app.is_gone is False
        assert await app.leaving == "http.disconnect"


async def test_pressure_is_the_time_in_which_the_client_reads_nothing() -> None:
    pressures: list[Pressure] = []

    class Noted(Large):
        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            pressures.append(scope["state"]["pressure"])
            await super().__call__(scope, receive, send)

    app = Noted()
    async with connected(app) as streams, asyncio.timeout(WITHIN_S):
        streams[1].write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        await streams[0].readuntil(b"\r\n\r\n")
        (pressure,) = pressures
        await asyncio.sleep(0.05)
        await streams[0].readexactly(app.size)
        await app.ended.wait()
        taken_s = pressure.seconds
        await asyncio.sleep(0.001)
        assert 0.02 <= taken_s == pressure.seconds < WITHIN_S


async def unmeasured(_scope: Scope, receive: Receive, send: Send) -> None:
    """Answers in two pieces, of a length not known before."""
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"one ", "more_body": True})
    await send({"type": "http.response.body", "body": b"two"})


@pytest.mark.behaviour(
    "HTTP/1.0 clients get streams without chunks, up to the end of the connection, and no 100",
    report="uvicorn: HTTP/1.0 clients get chunks, which they take for text",
)
async def test_http_1_0() -> None:
    async with connected(unmeasured) as streams, asyncio.timeout(WITHIN_S):
        streams[1].write(b"POST / HTTP/1.0\r\nexpect: 100-continue\r\ncontent-length: 1\r\n\r\na")
        head, body = (await streams[0].read()).split(b"\r\n\r\n")
        assert head.split()[1] == b"200"
        assert b"chunked" not in head
        assert body == b"one two"


@pytest.mark.behaviour(
    "a connection keeps nothing of a call that was answered",
    report="own finding: bodies that nobody read stayed for as long as their connections",
)
@pytest.mark.parametrize("app", [echo, refuse])
async def test_nothing_is_kept_of_an_answered_call(app: ASGIApp) -> None:
    calls: list[weakref.ref[object]] = []

    async def noting(scope: Scope, receive: Receive, send: Send) -> None:
        calls.append(weakref.ref(receive.__self__))  # type: ignore[attr-defined]  # it is bound
        await app(scope, receive, send)

    async with connected(noting) as streams:
        streams[1].write(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n123456789")
        await answer(streams)
        await asyncio.sleep(0.01)  # so that the call's task is over
        gc.collect()
        assert [call() for call in calls] == [None]


@pytest.mark.parametrize("has_begun", [True, False])
async def test_an_answer_that_outlasts_the_server_is_cut(
    *, has_begun: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(listeners, "CLOSE_S", 0)
    is_running = asyncio.Event()

    async def endless(_scope: Scope, _receive: Receive, send: Send) -> None:
        if has_begun:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"x", "more_body": True})
        is_running.set()
        await asyncio.Event().wait()

    bound = bind("127.0.0.1", 0, "--port")
    servers = Listeners((endless, bound))
    servers.start()
    reader, writer = await asyncio.open_connection(*bound.getsockname())
    async with asyncio.timeout(WITHIN_S):
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        await is_running.wait()
        await servers.stop()
        got = await reader.read()
    writer.close()
    assert got.startswith(b"HTTP/1.1 200") is has_begun
    assert not got.endswith(b"0\r\n\r\n")
    assert "Traceback" not in caplog.text
