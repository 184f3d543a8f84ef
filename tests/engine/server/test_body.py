from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response

from paceline_engine.server.body import Readings, read_body
from paceline_engine.server.error_routes import bare_app
from paceline_engine.server.errors import BodyTimeoutError, UnavailableError


async def test_a_body_that_never_ends_is_given_up() -> None:
    parts = iter([{"type": "http.request", "body": b"{", "more_body": True}])

    async def receive() -> Any:
        for part in parts:
            return part
        await asyncio.Event().wait()
        return None

    request = Request({"type": "http", "headers": []}, receive)
    with pytest.raises(BodyTimeoutError, match=r"within 0\.01 s"):
        await asyncio.wait_for(read_body(request, 100, deadline_s=0.01), 5)


async def test_the_end_of_all_readings_ends_those_that_run_and_those_that_come() -> None:
    readings, is_read = Readings(), asyncio.Event()

    async def receive() -> Any:
        is_read.set()
        await asyncio.Event().wait()

    async def code() -> str | None:
        request = Request({"type": "http", "headers": []}, receive)
        with pytest.raises(UnavailableError) as caught:
            await read_body(request, 100, deadline_s=60, readings=readings)
        return caught.value.code

    async with asyncio.timeout(5):
        running = asyncio.create_task(code())
        await is_read.wait()
        readings.end("draining")
        readings.end("not_ready")
        assert await running == "not_ready"
        is_read.clear()
        assert await code() == "not_ready"
        assert not is_read.is_set()


async def late(_request: Request) -> Response:
    raise BodyTimeoutError("too late")


async def test_it_is_a_408_in_the_api_form() -> None:
    app = bare_app("test")
    app.add_api_route("/late", late, methods=["POST"], response_model=None)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        answer = await client.post("/late", content="x")
    assert answer.status_code == 408
    assert answer.json()["error"]["code"] == "body_timeout"
