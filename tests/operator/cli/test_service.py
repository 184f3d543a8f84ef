"""What a user is told whom the API server refuses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paceline_operator.cli.errors import CliError, LoginError
from paceline_operator.cli.service import Service, connected
from tests.operator.cli.api_server import Api, api_server
from tests.operator.cli.sample import SPEC, STATUS

FOUND = {"metadata": {"name": "chat", "namespace": "default"}, "spec": SPEC, "status": STATUS}


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    with api_server("first") as server:
        server.login(tmp_path / "config", "first")
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
        yield server


async def read(name: str) -> Service:
    async with connected(None, None) as reader:
        return await reader.read(name)


def refused(status: int, message: str) -> tuple[int, dict[str, Any]]:
    return status, {"kind": "Status", "code": status, "message": message}


async def test_an_object_is_read(api: Api) -> None:
    api.answer = (200, FOUND)
    assert (await read("chat")).spec == SPEC
    assert api.asked == ["first"]


@pytest.mark.parametrize("name", ["chat", "chat-404", "error-404-page"])
async def test_a_missing_object_is_told_from_a_missing_kind(api: Api, name: str) -> None:
    api.answer = refused(404, f'inferenceservices.paceline.dev "{name}" not found')
    with pytest.raises(CliError, match=f"InferenceService '{name}' not found in namespace"):
        await read(name)
    api.answer = refused(404, "the server could not find the requested resource")
    with pytest.raises(CliError, match="this cluster knows no InferenceService"):
        await read(name)


async def test_a_login_that_is_refused_is_no_missing_right(api: Api) -> None:
    api.token = "second"
    with pytest.raises(LoginError) as told:
        await read("chat")
    assert str(told.value) == (
        "your login was refused: log in again (the API server says: Unauthorized)"
    )


async def test_a_missing_right_comes_with_the_servers_words(api: Api) -> None:
    api.answer = refused(403, 'User "dev" cannot get resource in the\nnamespace "default"')
    with pytest.raises(CliError) as told:
        await read("chat")
    assert not isinstance(told.value, LoginError)
    assert str(told.value) == (
        "no access: this user may not read inferenceservices.paceline.dev in namespace 'default' "
        '(the API server says: User "dev" cannot get resource in the namespace "default")'
    )


@pytest.mark.parametrize("name", ["", "infs/chat", "../../default"])
async def test_what_is_no_name_is_not_asked_for(api: Api, name: str) -> None:
    with pytest.raises(CliError, match=f"^'{name}' is no name of an InferenceService: write "):
        await read(name)
    assert api.asked == []


@pytest.mark.parametrize(("flag", "own"), [("a/b", "team"), (None, "A"), (None, "5"), ("", "a b")])
async def test_what_is_no_namespace_is_not_asked_in(
    api: Api, tmp_path: Path, flag: str | None, own: str
) -> None:
    file = tmp_path / "config"
    file.write_text(file.read_text().replace("user: u}", f"user: u, namespace: {own}}}"))
    with pytest.raises(CliError, match="is no name of a namespace: write "):
        async with connected(flag, None) as reader:
            await reader.read("chat")
    assert api.asked == []


@pytest.mark.parametrize("found", [{}, {"metadata": None}, {"metadata": {}, "items": []}])
async def test_an_answer_that_is_no_object_is_said(api: Api, found: dict[str, Any]) -> None:
    api.answer = (200, found)
    with pytest.raises(CliError, match="the answer is no InferenceService: look where"):
        await read("chat")
