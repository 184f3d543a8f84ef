"""Bodies of all calls together, while they are read and worked on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response

from paceline_engine.server.api_port import ApiPort
from paceline_engine.server.body import Readings
from paceline_engine.server.body_room import (
    FREE_BYTES,
    ROOM_BYTES,
    BodyRoom,
    planned_bytes,
    room_bytes,
)
from paceline_engine.server.error_routes import bare_app
from paceline_engine.server.errors import UnavailableError
from paceline_engine.server.settings import ServerSettings
from paceline_engine.server.wire import CompletionRequest

MIB = 1 << 20


@pytest.mark.parametrize("max_body", [1000, 8 * MIB, 100 * MIB])
def test_one_body_always_fits_and_all_of_it_is_planned(max_body: int) -> None:
    room = BodyRoom(room_bytes(max_body))
    with room.hold() as held:
        held.check(max_body)
        held.add(max_body)
    assert planned_bytes(max_body) == max(32 * MIB, max_body) + 2 * max_body


def test_what_a_body_takes_is_given_back() -> None:
    room = BodyRoom(100)
    with room.hold() as first, room.hold() as second:
        first.add(FREE_BYTES)
        assert room.held == 0
        first.add(30)
        first.add(40)
        second.add(FREE_BYTES + 30)
        assert room.held == 100
        with pytest.raises(UnavailableError, match="take 100 bytes and all may take 100"):
            first.add(1)
        assert room.held == 100
        with room.hold() as third:
            third.add(FREE_BYTES)
            with pytest.raises(UnavailableError):
                third.check(FREE_BYTES + 1)
        first.release()
        second.check(FREE_BYTES + 100 - 30)
    assert room.held == 0


class Port:
    """A route that holds what it read until told to go on."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.has = asyncio.Semaphore(0)
        self.uncounted: list[str | None] = []
        service: Any = SimpleNamespace(
            settings=ServerSettings(model_name="m"),
            config=SimpleNamespace(max_request_tokens=100),
            readings=Readings(),
        )
        self._port = ApiPort(service, None)
        self._app = bare_app("test")
        self._app.add_api_route("/", self._hold, methods=["POST"], response_model=None)

    async def _hold(self, request: Request) -> Response:
        async with self._port.body(
            CompletionRequest, request, lambda refusal: self.uncounted.append(refusal.code)
        ):
            self.has.release()
            await self.go_on.wait()
        return Response()

    async def post(self, megabytes: int, *, declared: bool = True) -> httpx.Response:
        part = b"a" * MIB

        async def parts() -> AsyncIterator[bytes]:
            yield b'{"prompt": "'
            for _ in range(megabytes):
                yield part
            yield b'"}'

        body: Any = b'{"prompt": "' + megabytes * part + b'"}' if declared else parts()
        transport = httpx.ASGITransport(self._app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.post("/", content=body)


@pytest.mark.behaviour(
    "bodies of all calls together are bounded until they are tokenised, and small ones get in",
    report="own finding: 20 unfinished bodies took 150 MiB that no memory plan knew of",
)
@pytest.mark.parametrize("declared", [True, False])
async def test_bodies_in_work_are_bounded(*, declared: bool) -> None:
    port = Port()
    large = [asyncio.create_task(port.post(7)) for _ in range(4)]
    async with asyncio.timeout(20):
        for _ in large:
            await port.has.acquire()
        refused = await port.post(7, declared=declared)
        assert refused.status_code == 503
        assert refused.json()["error"]["code"] == "bodies"
        assert refused.headers["retry-after"] == "1"
        assert port.uncounted == ["bodies"]
        small = asyncio.create_task(port.post(0))
        port.go_on.set()
        assert {each.status_code for each in await asyncio.gather(small, *large)} == {200}
        assert (await port.post(7)).status_code == 200
    assert ROOM_BYTES == 32 * MIB
