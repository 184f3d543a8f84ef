"""The admin client against a real engine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from paceline_operator.autopilot.vocabulary.fleet import Trial, Tunables
from paceline_operator.domain import tunables
from paceline_operator.domain.tunables import Agreed
from paceline_operator.reconcile.engine_admin import (
    MAX_BYTES,
    EngineAdmin,
    EngineError,
    RefusedError,
    UnreachableError,
)
from tests.support.engine_pods import EnginePod, running_engine

TOKEN = "a-token"
AGREED = Agreed(3, Tunables(max_num_batched_tokens=512, max_num_running_seqs=16))


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EnginePod]:
    directory: Path = tmp_path_factory.mktemp("engine")
    flags = ("--max-num-batched-tokens=1024", "--max-num-seqs=32", "--drain-grace-seconds=0")
    with running_engine("admin", TOKEN, directory, *flags) as pod:
        yield pod


@pytest.fixture
async def admin() -> AsyncIterator[EngineAdmin]:
    async with aiohttp.ClientSession() as session:
        yield EngineAdmin(session)


async def test_what_is_set_is_in_force_and_reported(engine: EnginePod, admin: EngineAdmin) -> None:
    answer = await admin.set_tunables(engine.ip, TOKEN, tunables.body(AGREED))
    assert (answer.revision, answer.effective, answer.running_seqs) == (3, 512, 16)
    assert answer.requested == 512
    assert await admin.tunables(engine.ip, TOKEN) == answer
    assert (answer.ceiling, answer.running_ceiling) == (1024, 32)


async def test_an_older_revision_is_refused(engine: EnginePod, admin: EngineAdmin) -> None:
    await admin.set_tunables(engine.ip, TOKEN, tunables.body(AGREED))
    with pytest.raises(RefusedError) as caught:
        await admin.set_tunables(engine.ip, TOKEN, tunables.body(replace(AGREED, revision=2)))
    assert caught.value.status == 409


async def test_a_trial_needs_a_revision_of_its_own(engine: EnginePod, admin: EngineAdmin) -> None:
    begun = replace(AGREED, revision=5, trial=Trial(uid="u", budget=1024))
    await admin.set_tunables(engine.ip, TOKEN, tunables.body(begun))
    with pytest.raises(RefusedError) as caught:
        await admin.set_tunables(engine.ip, TOKEN, tunables.body(begun.of_pod("u")))
    assert caught.value.status == 409
    tried = await admin.set_tunables(
        engine.ip, TOKEN, tunables.body(replace(begun, revision=6).of_pod("u"))
    )
    assert (tried.effective, tried.requested) == (1024, 1024)
    ended = replace(begun, revision=7, trial=None)
    assert (await admin.set_tunables(engine.ip, TOKEN, tunables.body(ended))).effective == 512


async def test_a_wrong_token_is_refused(engine: EnginePod, admin: EngineAdmin) -> None:
    with pytest.raises(RefusedError) as caught:
        await admin.tunables(engine.ip, "wrong")
    assert caught.value.status == 401


async def test_drain_and_back(engine: EnginePod, admin: EngineAdmin) -> None:
    assert not (await admin.drain_state(engine.ip, TOKEN)).done
    await admin.drain(engine.ip, TOKEN)
    assert (await admin.drain_state(engine.ip, TOKEN)).done
    await admin.undo_drain(engine.ip, TOKEN)
    assert not (await admin.drain_state(engine.ip, TOKEN)).done


async def test_an_answer_nested_too_deeply_is_none() -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(text="[" * 200_000, content_type="application/json")

    app = web.Application()
    app.router.add_get("/admin/drain", answer)
    async with TestServer(app) as server, aiohttp.ClientSession() as session:
        admin = EngineAdmin(session, server.port or 0)
        with pytest.raises(UnreachableError, match="nested too deeply"):
            await admin.drain_state("127.0.0.1", TOKEN)


async def test_nobody_there(admin: EngineAdmin) -> None:
    with pytest.raises(UnreachableError, match=r"127\.0\.0\.254"):
        await admin.tunables("127.0.0.254", TOKEN)


async def test_a_step_time_is_kept_until_it_is_left_out(
    engine: EnginePod, admin: EngineAdmin
) -> None:
    paced = replace(AGREED, knobs=replace(AGREED.knobs, step_time_target_ms=12.5), revision=8)
    answer = await admin.set_tunables(engine.ip, TOKEN, tunables.body(paced))
    assert answer.step_time_target_ms == 12.5
    answer = await admin.set_tunables(engine.ip, TOKEN, tunables.body(replace(AGREED, revision=9)))
    assert (answer.step_time_target_ms, answer.effective) == (None, 512)


async def answered(method: str, reply: web.StreamResponse, elsewhere: list[str]) -> str:
    """What is said of an engine that answers so; `elsewhere` gets what else was asked for."""

    async def engine(_: web.Request) -> web.StreamResponse:
        return reply

    async def other(request: web.Request) -> web.Response:
        elsewhere.append(f"{request.method} {request.path}")
        return web.json_response({})

    app = web.Application()
    app.router.add_route(method, "/admin/drain", engine)
    app.router.add_route("*", "/internal", other)
    async with TestServer(app) as server, aiohttp.ClientSession() as session:
        admin = EngineAdmin(session, server.port or 0)
        asked = {"GET": admin.drain_state, "POST": admin.drain, "DELETE": admin.undo_drain}[method]
        with pytest.raises(EngineError) as refused:
            await asked("127.0.0.1", TOKEN)
    return str(refused.value)


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
@pytest.mark.parametrize("status", [302, 307])
async def test_an_engine_leads_nobody_elsewhere(method: str, status: int) -> None:
    reply = web.Response(status=status, headers={"Location": "/internal"})
    elsewhere: list[str] = []
    assert f"/admin/drain: {status}" in await answered(method, reply, elsewhere)
    assert elsewhere == []


async def test_an_answer_that_is_too_long_is_none() -> None:
    reply = web.Response(body=b"[" + b"1," * MAX_BYTES + b"1]", content_type="application/json")
    assert f"answer above {MAX_BYTES} bytes" in await answered("GET", reply, [])
