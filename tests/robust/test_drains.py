"""Two hundred drains, undone between, under load from clients that keep connections alive."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

import httpx
import pytest

from tests.support.engine_server import EngineServer, engine_server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ENGINES = 8
DRAINS_EACH = 25
CLIENTS_EACH = 3
GRACE_S = 1.0
PATIENCE_S = 60.0
POLL_S = 0.05
REFUSED = 503


@dataclass(slots=True)
class Tally:
    """What clients of one engine saw.

    Attributes:
        statuses: How often each status came.
        cut: Answers that were accepted and not whole, and connections that broke.
        without_close: Refusals after which the connection was left open.
    """

    statuses: Counter[int] = field(default_factory=Counter)
    cut: list[str] = field(default_factory=list)
    without_close: int = 0


@pytest.fixture(scope="module")
def engines() -> Iterator[list[EngineServer]]:
    flags = (f"--drain-grace-seconds={GRACE_S}", "--max-num-seqs=16")
    law = "base_ms=8,per_token_ms=0.01"
    with ExitStack() as stack:
        servers = [
            stack.enter_context(engine_server(*flags, law=law, ready=False)) for _ in range(ENGINES)
        ]
        for server in servers:
            server.wait_for("ready after")
        yield servers


async def ask(client: httpx.AsyncClient, tally: Tally, *, stream: bool) -> None:
    """One request; all but a whole answer or a plain refusal is noted."""
    body = {"prompt": "pace", "max_tokens": 20, "stream": stream}
    try:
        reply = await client.post("/v1/completions", json=body)
    except httpx.HTTPError as error:
        tally.cut.append(f"{type(error).__name__}: {error}")
        return
    tally.statuses[reply.status_code] += 1
    if reply.status_code == REFUSED:
        if "retry-after" not in reply.headers:
            tally.cut.append("a refusal without Retry-After")
        tally.without_close += reply.headers.get("connection") != "close"
    elif reply.status_code != 200:
        tally.cut.append(f"status {reply.status_code}: {reply.text[:200]}")
    elif not is_whole(reply, stream=stream):
        tally.cut.append(f"cut: {reply.text[-80:]}")


def is_whole(reply: httpx.Response, *, stream: bool) -> bool:
    if stream:
        return reply.text.endswith("data: [DONE]\n\n")
    return bool(json.loads(reply.content)["choices"][0]["finish_reason"])


async def load(server: EngineServer, tally: Tally, ended: asyncio.Event) -> None:
    """Clients that ask again and again over one pool of connections."""
    limits = httpx.Limits(max_connections=CLIENTS_EACH, max_keepalive_connections=CLIENTS_EACH)
    async with httpx.AsyncClient(base_url=server.api, limits=limits, timeout=PATIENCE_S) as client:

        async def one(number: int) -> None:
            while not ended.is_set():
                await ask(client, tally, stream=number % 2 == 0)
                await asyncio.sleep(0.02)

        await asyncio.gather(*(one(number) for number in range(CLIENTS_EACH)))


async def drains(server: EngineServer, ended: asyncio.Event) -> int:
    """Drains and takes back; returns how many drains ran empty."""
    empty = 0
    async with httpx.AsyncClient(base_url=server.admin, timeout=PATIENCE_S) as admin:
        for _ in range(DRAINS_EACH):
            assert (await admin.post("/admin/drain")).json()["phase"] == "announced"
            empty += await runs_empty(admin)
            assert (await admin.delete("/admin/drain")).json()["phase"] == "none"
            await asyncio.sleep(0.1)
    ended.set()
    return empty


async def runs_empty(admin: httpx.AsyncClient) -> bool:
    """Whether a drain comes to its end in time."""
    for _ in range(int(PATIENCE_S / POLL_S)):
        state = (await admin.get("/admin/drain")).json()
        if state["phase"] == "refusing" and state["empty"]:
            return True
        await asyncio.sleep(POLL_S)
    return False


@pytest.mark.behaviour(
    "200 drains under load, undone between, cut no accepted request and reset no connection",
    report="vllm #24885, gateway-api-inference-extension #549: requests dropped in a drain",
)
async def test_no_drain_cuts_a_request(engines: list[EngineServer]) -> None:
    tallies = [Tally() for _ in engines]
    ended = [asyncio.Event() for _ in engines]
    loads = [asyncio.create_task(load(*each)) for each in zip(engines, tallies, ended, strict=True)]
    counts = await asyncio.gather(*(drains(*each) for each in zip(engines, ended, strict=True)))
    await asyncio.gather(*loads)
    assert [tally.cut for tally in tallies] == [[]] * ENGINES
    assert counts == [DRAINS_EACH] * ENGINES
    assert all(tally.statuses[200] > DRAINS_EACH for tally in tallies)
    assert all(tally.statuses[REFUSED] > 0 for tally in tallies)
    assert [tally.without_close for tally in tallies] == [0] * ENGINES
