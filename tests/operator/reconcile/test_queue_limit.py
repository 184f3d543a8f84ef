"""What the limit on waiting, which the operator starts engines with, does in real ones."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator

import aiohttp
import pytest

from paceline_operator.api.v1alpha1 import Slo
from paceline_operator.autopilot.vocabulary.fleet import Tunables
from paceline_operator.domain import tunables
from paceline_operator.domain.contract import (
    API_PORT,
    BY_OBJECTIVES,
    HEALTH_PORT,
    Flag,
    HealthPath,
)
from paceline_operator.domain.tunables import Agreed
from paceline_operator.reconcile.engine_admin import EngineAdmin
from tests.support.engine_pods import EnginePod, running_engine

TOKEN = "a-token"
CALLS = 60
FIRST = Slo(name="first", metric="TTFT", target_ms=1000)
BODY = {"model": "fleet", "prompt": list(range(40)), "max_tokens": 1, "ignore_eos": True}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EnginePod]:
    """Prompts of 40 tokens take it 50 ms each, so that 20 can be on time at once."""
    flags = (
        "--step-coefficients=base_ms=10,per_token_ms=1",
        "--max-num-batched-tokens=64", "--max-num-seqs=16",
        "--prefix-caching=off", f"{Flag.MAX_QUEUE_SECONDS}={BY_OBJECTIVES}",
    )  # fmt: skip
    with running_engine("limit", TOKEN, tmp_path_factory.mktemp("engine"), *flags) as pod:
        yield pod


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as made:
        yield made


async def agree(
    session: aiohttp.ClientSession, engine: EnginePod, revision: int, *slos: Slo
) -> None:
    knobs = Tunables(max_num_batched_tokens=64, max_num_running_seqs=16)
    body = tunables.body(Agreed(revision, knobs, slos))
    assert (await EngineAdmin(session).set_tunables(engine.ip, TOKEN, body)).revision == revision


async def call(session: aiohttp.ClientSession, engine: EnginePod) -> int:
    async with session.post(engine.url(API_PORT, "/v1/completions"), json=BODY) as reply:
        if reply.status == 429:
            assert int(reply.headers["Retry-After"]) >= 1
        await reply.read()
        return reply.status


async def burst(session: aiohttp.ClientSession, engine: EnginePod) -> Counter[int]:
    """What becomes of calls that all come at once, after a few that show how fast it is."""
    for _ in range(3):
        assert await call(session, engine) == 200
    return Counter(await asyncio.gather(*(call(session, engine) for _ in range(CALLS))))


async def counted(session: aiohttp.ClientSession, engine: EnginePod) -> dict[str, int]:
    """The objective's samples by outcome."""
    async with session.get(engine.url(HEALTH_PORT, HealthPath.METRICS)) as reply:
        text = await reply.text()
    lines = [each for each in text.splitlines() if "slo_samples_total{" in each]
    return {
        outcome: sum(int(float(each.split()[-1])) for each in lines if f'"{outcome}"' in each)
        for outcome in ("good", "bad")
    }


async def test_objectives_come_and_go_in_engines_that_run(
    engine: EnginePod, session: aiohttp.ClientSession
) -> None:
    """Without one all wait, with one who would be late gets 429, and counts as missed."""
    await agree(session, engine, 1)
    assert await burst(session, engine) == {200: CALLS}

    await agree(session, engine, 2, FIRST)
    found = await burst(session, engine)
    assert set(found) == {200, 429}
    assert 10 <= found[200] <= 30
    counts = await counted(session, engine)
    assert counts["good"] + counts["bad"] == CALLS + 3
    assert counts["bad"] >= found[429]
    assert counts["good"] >= 0.8 * found[200]

    await agree(session, engine, 3)
    assert await burst(session, engine) == {200: CALLS}
