from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2e.load.plan import PlannedRequest
from e2e.load.prompt import WORDS, prompt_text, request_body


@given(st.integers(1, 3000), st.integers())
def test_bytes_are_exact(tokens: int, seed: int) -> None:
    assert len(prompt_text(tokens, "bytes", Random(seed)).encode()) == tokens


@given(st.integers(1, 500), st.integers())
def test_words_are_counted(tokens: int, seed: int) -> None:
    words = prompt_text(tokens, "words", Random(seed)).split(" ")
    assert len(words) == tokens
    assert set(words) <= set(WORDS)


def body(number: int = 0, seed: int = 1, *, streamed: bool = True, **changes: Any) -> Any:
    request = PlannedRequest(
        number=number,
        offset_s=0.0,
        phase="",
        kind="",
        prompt_tokens=30,
        max_tokens=5,
        streamed=streamed,
    )
    defaults: dict[str, Any] = {"route": "chat", "vocabulary": "bytes", "ignore_eos": True}
    return request_body(request, model="m", seed=seed, **{**defaults, **changes})


def test_a_streamed_chat_asks_for_usage() -> None:
    made = body()
    assert made["model"] == "m"
    assert made["max_tokens"] == 5
    assert made["stream"] is True
    assert made["stream_options"] == {"include_usage": True}
    assert made["ignore_eos"] is True
    (message,) = made["messages"]
    assert message["role"] == "user"
    assert len(message["content"]) == 30


def test_a_whole_completion_says_no_more_than_needed() -> None:
    made = body(streamed=False, route="completions", ignore_eos=False)
    assert len(made["prompt"]) == 30
    assert made.keys().isdisjoint({"messages", "stream_options", "ignore_eos"})


@pytest.mark.parametrize("changes", [{"number": 1}, {"seed": 2}])
def test_requests_differ_by_number_and_seed_alone(changes: dict[str, int]) -> None:
    assert body() == body()
    assert body()["messages"] != body(**changes)["messages"]
    assert body()["seed"] != body(**changes)["seed"]
