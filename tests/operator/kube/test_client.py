"""Answers of an API server that are no objects."""

from __future__ import annotations

import pytest

from paceline_operator.kube import client
from paceline_operator.kube.errors import InvalidError, NotFoundError


def test_an_answer_nested_too_deeply_is_refused_in_one_line() -> None:
    with pytest.raises(InvalidError) as refused:
        client._read("GET", "/apis/x", 200, "[" * 200_000)
    assert str(refused.value) == "GET /apis/x: the answer is nested too deeply to be read"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"message": "no such thing"}', "no such thing"),
        ("404 page not found", "404 page not found"),
        ('{"message": null}', ""),
        ("[]", ""),
    ],
)
def test_an_error_keeps_the_servers_own_words(text: str, said: str) -> None:
    with pytest.raises(NotFoundError) as missing:
        client._read("GET", "/apis/x", 404, text)
    assert missing.value.said == said
    assert str(missing.value) == f"GET /apis/x: 404 {said}".strip()
