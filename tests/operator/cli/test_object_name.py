from __future__ import annotations

import pytest

from paceline_operator.cli.errors import CliError
from paceline_operator.cli.object_name import check_name, check_namespace


@pytest.mark.parametrize("name", ["chat", "chat-2", "2chat", "chat.v2", "a" * 63])
def test_a_name_is_let_through(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("", "write one of small letters, digits and '-', such as chat"),
        ("infs/chat", "write chat alone"),
        ("team/infs/chat", "write chat alone"),
        ("infs/", "write one of"),
        ("..", "write one of"),
        ("chat?watch=1", "write one of"),
        ("Chat", "write one of"),
        ("chat\n", "write one of"),
        ("-chat", "write one of"),
        ("a.b" * 100, "write one of"),
    ],
)
def test_what_is_no_name_is_said_in_one_line(name: str, remedy: str) -> None:
    with pytest.raises(CliError) as refused:
        check_name(name)
    assert str(refused.value).startswith(f"{name!r} is no name of an InferenceService: {remedy}")
    assert "\n" not in str(refused.value)


def test_a_namespace_is_let_through() -> None:
    check_namespace("kube-system")


@pytest.mark.parametrize("name", ["", "a.b", "ns/team", "Team", "a" * 64, 'a",b="', 5])
def test_what_is_no_namespace_is_said(name: object) -> None:
    with pytest.raises(CliError, match="is no name of a namespace: write "):
        check_namespace(name)
