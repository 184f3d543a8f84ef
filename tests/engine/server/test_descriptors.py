"""Connections of one port leave descriptors to the others; those beyond are told so."""

from __future__ import annotations

import asyncio
import logging
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from paceline_engine.server.descriptors import connections_each, raise_limit
from paceline_engine.server.listeners import Listeners, bind
from tests.engine.server.test_listeners import whole

INFINITE = resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("soft", "hard", "raised"),
    [
        (1024, 4096, 4096),
        (1024, 1_048_576, 65_536),
        (1024, INFINITE, 65_536),
        (4096, 4096, None),
        (100_000, INFINITE, None),
    ],
)
def test_the_soft_limit_is_raised_and_never_lowered(
    soft: int, hard: int, raised: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    was_set: list[tuple[int, tuple[int, int]]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _what: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda what, limits: was_set.append((what, limits)))
    assert raise_limit() == (raised or soft)
    assert was_set == ([(resource.RLIMIT_NOFILE, (raised, hard))] if raised else [])


@pytest.mark.parametrize(("limit", "most"), [(65_536, 4096), (1024, 149), (256, 21), (64, 1)])
def test_ports_share_half_of_what_there_is(limit: int, most: int) -> None:
    assert connections_each(limit, ports=3) == most


@asynccontextmanager
async def port(most: int, refused: list[None]) -> AsyncIterator[tuple[str, int]]:
    bound = bind("127.0.0.1", 0, "--port")
    servers = Listeners(
        (whole, bound), most_connections=most, on_refused=lambda: refused.append(None)
    )
    servers.start()
    try:
        yield bound.getsockname()
    finally:
        await servers.stop()


@pytest.mark.behaviour(
    "connections beyond what a port may have are answered with 503 at once, logged once and "
    "counted; the others go on",
    report="own finding: 1,000 idle connections without a key made the liveness probe fail",
)
async def test_connections_beyond_are_told_so(caplog: pytest.LogCaptureFixture) -> None:
    refused: list[None] = []
    caplog.set_level(logging.WARNING)
    async with port(2, refused) as address, asyncio.timeout(20):
        first, idle = [await asyncio.open_connection(*address) for _ in range(2)]
        for count in (1, 2):
            reader, writer = await asyncio.open_connection(*address)
            answer = await reader.read()
            assert answer.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
            assert b"\r\nretry-after: 1\r\n" in answer
            assert b'"code": "connections"' in answer
            assert len(refused) == count
            writer.close()
        first[1].write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        assert (await first[0].readline()) == b"HTTP/1.1 200 OK\r\n"
        first[1].transport.abort()
        idle[1].close()
    assert len([each for each in caplog.records if "connections are open" in each.message]) == 1
