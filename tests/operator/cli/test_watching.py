"""A login that ends while an object is watched."""

from __future__ import annotations

from pathlib import Path

import pytest

from paceline_operator.cli.errors import LoginError
from paceline_operator.cli.watching import looks
from tests.operator.cli.api_server import api_server
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
