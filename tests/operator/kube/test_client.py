"""Answers of an API server that are no objects."""

from __future__ import annotations

import pytest

from paceline_operator.kube import client
from paceline_operator.kube.errors import InvalidError


def test_an_answer_nested_too_deeply_is_refused_in_one_line() -> None:
    with pytest.raises(InvalidError) as refused:
        client._read("GET", "/apis/x", 200, "[" * 200_000)
    assert str(refused.value) == "GET /apis/x: the answer is nested too deeply to be read"
