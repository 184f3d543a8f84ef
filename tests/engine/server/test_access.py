from __future__ import annotations

from pathlib import Path

import pytest

from paceline_engine.server.access import TokenFile, TokenFileError, bearer_token


@pytest.mark.parametrize(
    ("header", "token"),
    [
        (None, None),
        ("", None),
        ("Bearer", None),
        ("Bearer  ", None),
        ("Bearer abc", "abc"),
        ("bearer  abc ", "abc"),
        ("Basic abc", None),
    ],
)
def test_bearer_token(header: str | None, token: str | None) -> None:
    assert bearer_token(header) == token


def test_tokens_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text("\n one \ntwo\n\n")
    tokens = TokenFile(path)
    assert [tokens.accepts(token) for token in ("one", "two", "", None, " one ")] == [
        True,
        True,
        False,
        False,
        False,
    ]


def test_a_replaced_file_takes_effect_as_kubernetes_does_it(tmp_path: Path) -> None:
    for version, token in (("v1", "old"), ("v2", "new")):
        (tmp_path / version).mkdir()
        (tmp_path / version / "token").write_text(token)
    current = tmp_path / "data"
    current.symlink_to("v1")
    tokens = TokenFile(current / "token")
    assert tokens.accepts("old")
    swap = tmp_path / "swap"
    swap.symlink_to("v2")
    swap.rename(current)
    assert tokens.accepts("new")
    assert not tokens.accepts("old")
    current.unlink()
    assert not tokens.accepts("new")


@pytest.mark.parametrize("content", [None, b"", b"\n \n", b"\xff\xfe"])
def test_useless_files_are_refused_at_the_start(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(TokenFileError, match=str(path)) as caught:
        TokenFile(path)
    assert "\n" not in str(caught.value)
