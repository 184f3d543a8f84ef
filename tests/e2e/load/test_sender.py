"""One request against a real HTTP server that behaves well, badly, or not at all."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from aiohttp import web

from e2e.load.plan import PlannedRequest
from e2e.load.record import Outcome, Record
from e2e.load.sender import Target, open_session, send
from tests.e2e.load.serving import USAGE, Handler, Serve, event, full_stream, stream_of, text_event


async def reset(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def reset_half_way(request: web.Request) -> web.StreamResponse:
    response = await stream_of(request)
    await response.write(text_event("a") + text_event("b"))
    assert request.transport is not None
    request.transport.abort()
    return response


async def close_half_way(request: web.Request) -> web.StreamResponse:
    response = await stream_of(request)
    await response.write(text_event("a"))
    return response


async def no_done(request: web.Request) -> web.StreamResponse:
    response = await stream_of(request)
    await response.write(text_event("abcd", "length") + event(choices=[], usage=USAGE))
    return response


async def short_answer(request: web.Request) -> web.StreamResponse:
    response = await stream_of(request)
    await response.write(text_event("abc", "stop"))
    await response.write(event(choices=[], usage={**USAGE, "completion_tokens": 3}))
    await response.write(b"data: [DONE]\n\n")
    return response


async def error_in_stream(request: web.Request) -> web.StreamResponse:
    response = await stream_of(request)
    await response.write(text_event("a") + event(error={"message": "the engine died"}))
    return response


async def not_json(request: web.Request) -> web.StreamResponse:
    response = await stream_of(request)
    await response.write(b"data: <html>\n\n")
    return response


async def too_busy(request: web.Request) -> web.StreamResponse:
    return web.json_response(
        {"error": {"message": "the queue is full"}}, status=429, headers={"Retry-After": "1"}
    )


async def bare_429(request: web.Request) -> web.StreamResponse:
    return web.json_response({"error": {"message": "go away"}}, status=429)


async def draining(request: web.Request) -> web.StreamResponse:
    return web.json_response(
        {"error": {"message": "draining"}}, status=503, headers={"Retry-After": "1"}
    )


async def broken(request: web.Request) -> web.StreamResponse:
    return web.Response(status=500, text="<h1>oops\n</h1>")


async def silent(request: web.Request) -> web.StreamResponse:
    await asyncio.sleep(30)
    return web.Response()


def planned(*, streamed: bool = True) -> PlannedRequest:
    return PlannedRequest(
        number=7,
        offset_s=1.0,
        phase="step",
        kind="chat",
        prompt_tokens=9,
        max_tokens=4,
        streamed=streamed,
    )


def target(url: str, **changes: Any) -> Target:
    defaults: dict[str, Any] = {
        "model": "m",
        "route": "chat",
        "vocabulary": "bytes",
        "seed": 3,
        "ignore_eos": True,
        "timeout_s": 10.0,
    }
    return Target(url=url, **{**defaults, **changes})


async def sent_to(url: str, *, streamed: bool = True, **changes: Any) -> Record:
    async with open_session() as session:
        return await send(session, target(url, **changes), planned(streamed=streamed), 123.0)


async def test_a_full_stream_is_ok_and_timed_text_by_text(serve: Serve) -> None:
    before = time.time()
    record = await sent_to(await serve(full_stream))
    assert (record.outcome, record.error, record.status) == (Outcome.OK, None, 200)
    assert (record.prompt_tokens, record.tokens) == (12, 4)
    assert (record.id, record.phase, record.kind, record.scheduled_s) == (7, "step", "chat", 123.0)
    assert before <= record.sent_s <= record.ended_s <= time.time()
    assert record.ttft_ms is not None
    assert record.ttft_ms > 0
    assert len(record.gaps_ms) == 3
    assert all(gap >= 15 for gap in record.gaps_ms)
    *_, (last_text_s, _) = record.gaps_at()
    assert last_text_s <= record.ended_s + 1e-3


@pytest.mark.parametrize(
    ("handler", "outcome", "status", "error"),
    [
        (reset, Outcome.LOST, None, "ServerDisconnectedError"),
        (reset_half_way, Outcome.LOST, 200, "Client"),
        (close_half_way, Outcome.LOST, 200, "the answer ended without a finish reason"),
        (no_done, Outcome.LOST, 200, "the stream ended without [DONE]"),
        (short_answer, Outcome.LOST, 200, "3 of 4 tokens came (finish reason stop)"),
        (error_in_stream, Outcome.LOST, 200, "error in the answer: the engine died"),
        (not_json, Outcome.LOST, 200, "not JSON: <html>"),
        (too_busy, Outcome.REFUSED, 429, "HTTP 429: the queue is full"),
        (bare_429, Outcome.LOST, 429, "HTTP 429: go away"),
        (draining, Outcome.LOST, 503, "HTTP 503: draining"),
        (broken, Outcome.LOST, 500, "HTTP 500: <h1>oops </h1>"),
    ],
)
async def test_anything_else_is_named(
    serve: Serve, handler: Handler, outcome: Outcome, status: int | None, error: str
) -> None:
    record = await sent_to(await serve(handler))
    assert (record.outcome, record.status) == (outcome, status)
    assert record.error is not None
    assert record.error.startswith(error)
    assert "\n" not in record.error


async def test_texts_seen_before_a_loss_are_kept(serve: Serve) -> None:
    record = await sent_to(await serve(reset_half_way))
    assert record.ttft_ms is not None
    assert record.tokens == 2


async def test_texts_that_come_together_are_one_arrival(serve: Serve) -> None:
    """A gap of 0 ms between them would count as good and hide the wait before them."""
    record = await sent_to(await serve(reset_half_way))
    assert record.gaps_ms == ()


async def test_a_stop_before_the_limit_is_full_where_eos_counts(serve: Serve) -> None:
    record = await sent_to(await serve(short_answer), ignore_eos=False)
    assert record.outcome is Outcome.OK


async def test_a_whole_answer_has_no_ttft(serve: Serve) -> None:
    async def whole(request: web.Request) -> web.StreamResponse:
        body = await request.json()
        assert body["stream"] is False
        choice = {"index": 0, "message": {"content": "abcd"}, "finish_reason": "length"}
        return web.json_response({"choices": [choice], "usage": USAGE})

    record = await sent_to(await serve(whole), streamed=False)
    assert (record.outcome, record.ttft_ms, record.tokens) == (Outcome.OK, None, 4)


async def test_nothing_listens(unused_tcp_port: int) -> None:
    record = await sent_to(f"http://127.0.0.1:{unused_tcp_port}")
    assert (record.outcome, record.status) == (Outcome.LOST, None)
    assert record.error is not None
    assert record.error.startswith("ClientConnectorError: ")


async def test_silence_is_lost_after_the_timeout(serve: Serve) -> None:
    record = await sent_to(await serve(silent), timeout_s=0.05)
    assert (record.outcome, record.error) == (Outcome.LOST, "no end within 0.05 s")


async def test_each_request_has_a_connection_of_its_own(serve: Serve) -> None:
    seen: list[tuple[Any, str | None, str | None]] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        peer = request.transport.get_extra_info("peername")
        seen.append((peer, request.headers.get("Connection"), request.headers["Authorization"]))
        return await full_stream(request)

    url = await serve(handler)
    async with open_session() as session:
        for _ in range(3):
            await send(session, target(url, api_key="k"), planned(), 0.0)
    assert len({peer for peer, _, _ in seen}) == 3
    assert {(connection, key) for _, connection, key in seen} == {("close", "Bearer k")}
