from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response

from paceline_engine.server.calls import Calls
from paceline_engine.server.drain import Drain
from paceline_engine.server.envelope import Envelope
from paceline_engine.server.error_routes import bare_app


async def fail(request: Request) -> Response:
    raise ValueError(f"cannot digest {await request.body()!r}")


@pytest.fixture
def parts() -> tuple[Envelope, Any]:
    app = bare_app("test")
    app.add_api_route("/fail", fail, methods=["POST"], response_model=None)
    service: Any = SimpleNamespace(calls=Calls(), drain=Drain(lambda: 0.0, grace_s=5))
    return Envelope(app, service), service


async def test_a_defect_is_a_clean_500_and_its_text_stays_out_of_the_log(
    parts: tuple[Envelope, Any], caplog: pytest.LogCaptureFixture
) -> None:
    envelope, service = parts
    with caplog.at_level(logging.DEBUG):
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(envelope), base_url="http://test"
        ) as client:
            answer = await client.post("/fail", content="my secret prompt")
    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == "internal_error"
    assert answer.headers["x-request-id"]
    assert f"in call {answer.headers['x-request-id']}: ValueError" in caplog.text
    assert "test_envelope.py" in caplog.text
    assert "secret" not in caplog.text
    assert service.calls.running == 0


async def test_a_drain_closes_connections(parts: tuple[Envelope, Any]) -> None:
    envelope, service = parts
    transport = httpx.ASGITransport(envelope)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        assert "connection" not in (await client.get("/none")).headers
        service.drain.begin()
        assert (await client.get("/none")).headers["connection"] == "close"


async def test_calls_wait_until_empty() -> None:
    calls = Calls()
    await calls.wait_empty()
    calls.enter()
    calls.enter()
    calls.leave()
    assert calls.running == 1
    calls.leave()
    await calls.wait_empty()
