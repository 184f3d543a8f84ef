"""A login that ends, and a server that is away, while an object is watched."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paceline_operator.cli.errors import AwayError, CliError, LoginError
from paceline_operator.cli.watching import looks
from tests.operator.cli.api_server import Api, api_server
from tests.operator.cli.test_service import FOUND


async def test_a_new_login_is_taken_from_the_kubeconfig(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "config"
    monkeypatch.setenv("KUBECONFIG", str(file))
    with api_server("first") as api:
        api.answer = (200, FOUND)
        api.login(file, "first")
        seen = looks("chat", None, None, every_s=0.0)
        for token in ("first", "second", "third"):
            api.token = token
            api.login(file, token)
            assert (await anext(seen)).name == "chat"
        assert api.asked == ["first", "first", "second", "second", "third"]
        api.token = "fourth"
        with pytest.raises(LoginError):
            await anext(seen)
        assert api.asked[5:] == ["third", "third"]


async def test_a_login_that_never_was_good_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    with api_server("first") as api:
        api.login(tmp_path / "config", "other")
        with pytest.raises(LoginError):
            await anext(looks("chat", None, None))
        assert api.asked == ["other"]


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    with api_server("first") as server:
        server.login(tmp_path / "config", "first")
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
        server.answer = (200, FOUND)
        yield server


BUSY: tuple[int, dict[str, Any]] = (503, {"kind": "Status", "message": "busy"})


async def test_a_server_that_is_away_for_a_while_is_asked_again(
    api: Api, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = looks("chat", None, None, every_s=0.0)
    for time in (1, 2):
        assert (await anext(seen)).name == "chat"
        api.answer, before = BUSY, len(api.asked)
        waiting = asyncio.ensure_future(anext(seen))
        while len(api.asked) < before + 3:
            assert not waiting.done()
            await asyncio.sleep(0.01)
        api.answer = (200, FOUND)
        assert (await asyncio.wait_for(waiting, 10)).name == "chat"
        said = capsys.readouterr().err
        assert said.startswith("the API server cannot be asked: GET /apis/"), time
        assert said.endswith(": 503 busy; asking again\n")
        assert said.count("\n") == 1


async def test_a_server_that_is_away_from_the_beginning_is_said_at_once(api: Api) -> None:
    api.answer = BUSY
    with pytest.raises(AwayError, match=r"the API server cannot be asked: .* 503 busy"):
        await anext(looks("chat", None, None))
    assert len(api.asked) == 1


async def test_an_object_that_is_removed_ends_it(api: Api) -> None:
    seen = looks("chat", None, None, every_s=0.0)
    await anext(seen)
    api.answer = (404, {"message": 'inferenceservices.paceline.dev "chat" not found'})
    with pytest.raises(CliError, match="InferenceService 'chat' not found"):
        await anext(seen)


async def test_a_login_may_end_while_the_server_is_away(api: Api, tmp_path: Path) -> None:
    seen = looks("chat", None, None, every_s=0.0)
    await anext(seen)
    api.answer, api.token = BUSY, "second"
    api.login(tmp_path / "config", "second")
    waiting = asyncio.ensure_future(anext(seen))
    while api.asked.count("second") < 2:
        assert not waiting.done()
        await asyncio.sleep(0.01)
    api.answer = (200, FOUND)
    assert (await asyncio.wait_for(waiting, 10)).name == "chat"
