from __future__ import annotations

import contextlib
import gc
import json
import tracemalloc
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from paceline_engine.server.contents import MAX_VALUES, check_contents
from paceline_engine.server.errors import BadRequestError, ContextLengthError
from paceline_engine.server.tokenize_wire import DetokenizeRequest, TokenizeRequest
from paceline_engine.server.uncollected import uncollected
from paceline_engine.server.wire import ChatRequest, CompletionRequest

MANY = 300_000
NUMBERS = 1000
USER = {"role": "user", "content": "a"}
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
TOO_MUCH: dict[str, dict[str, Any]] = {
    "prompts": {"prompt": ["a"] * MANY},
    "lists of ids": {"prompt": [[]] * MANY},
    "an early bracket": {"x": [], "prompt": [[1]] * MANY},
    "a field nobody reads": {"prompt": "a", "metadata": [[1]] * MANY},
    "fields": {"prompt": "a", **{str(i): 1 for i in range(MANY)}},
    "stop strings": {"prompt": "a", "stop": ["ab"] * MANY},
    "bias": {"prompt": "a", "logit_bias": {str(i): 1 for i in range(MANY)}},
    "messages": {"messages": [USER] * MANY},
    "parts": {"messages": [{**USER, "content": [{"type": "text", "text": ""}] * MANY}]},
    "calls": {"messages": [{**USER, "tool_calls": [CALL] * MANY}]},
    "variables": {"messages": [USER], "chat_template_kwargs": {"a": [{}] * MANY}},
}


def counted(body: object) -> int:
    """What a parsed body holds of that which is limited."""
    if isinstance(body, dict):
        return 1 + len(body) + sum(counted(each) for each in body.values())
    if isinstance(body, list):
        return 1 + sum(counted(each) for each in body)
    return isinstance(body, str)


@pytest.mark.behaviour(
    "a body with more than a call may bring is refused before its values are made into objects",
    report="own finding: 5 MB of small lists in a field nobody reads held up every stream for "
    "seconds",
)
@pytest.mark.parametrize("body", TOO_MUCH.values(), ids=TOO_MUCH.keys())
def test_too_much_is_refused_unparsed(body: dict[str, Any]) -> None:
    raw = json.dumps(body).encode()
    tracemalloc.start()
    try:
        with pytest.raises(BadRequestError, match=f"the limit is {MAX_VALUES}") as caught:
            check_contents(raw, NUMBERS)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert caught.value.code == "invalid_value"
    assert peak < 3 * len(raw)


@pytest.mark.parametrize(
    "body",
    [
        {"prompt": [1] * MANY},
        {"x": [[]], "prompt": [[1] * MANY]},
        {"tokens": [1] * MANY},
        {"prompt": "a", "stop_token_ids": [1] * MANY},
    ],
)
def test_so_are_more_ids_than_an_engine_takes(body: dict[str, Any]) -> None:
    raw = json.dumps(body).encode()
    with pytest.raises(ContextLengthError, match=f"may bring {NUMBERS} token ids"):
        check_contents(raw, NUMBERS)
    check_contents(raw, MANY)


VALUES = st.recursive(
    st.none() | st.integers() | st.text() | st.text('\\"[{,a', min_size=1),
    lambda inner: st.lists(inner) | st.dictionaries(st.text('\\"[{,a'), inner),
)


@given(inner=VALUES, ensure_ascii=st.booleans())
def test_exactly_what_is_no_text_counts(inner: object, ensure_ascii: bool) -> None:
    spare = MAX_VALUES - counted({"a": inner, "b": []})
    fits, over = (
        json.dumps({"a": inner, "b": [{}] * (spare + more)}, ensure_ascii=ensure_ascii).encode()
        for more in (0, 1)
    )
    check_contents(fits, NUMBERS)
    with pytest.raises(BadRequestError):
        check_contents(over, NUMBERS)


@pytest.mark.behaviour(
    "what stands inside a text counts as one text, however many commas and brackets it has",
    report="own finding: long tool arguments were refused for the punctuation in them",
)
@pytest.mark.parametrize(
    "text", ["1,2,[3],{4}\n" * 100_000, '"' * MANY, "\\" * MANY, '\\"' * MANY, "€," * MANY]
)
def test_punctuation_inside_a_text_is_free(text: str) -> None:
    called = {"name": "f", "arguments": json.dumps({"csv": text})}
    message = {"role": "assistant", "tool_calls": [{"type": "function", "function": called}]}
    check_contents(json.dumps({"messages": [message, USER]}).encode(), NUMBERS)


@pytest.mark.parametrize(
    "raw",
    [b"", b"{", b'"', b'{"prompt": "' + b"a" * MANY, b"\xff" * MANY, b"\\" * MANY, b"]" * MANY],
)
def test_what_is_no_json_is_left_to_parsing(raw: bytes) -> None:
    check_contents(raw, NUMBERS)


def test_the_longest_chat_fits() -> None:
    parts = [{"type": "text", "text": "a"}] * 2
    body = {"messages": [{"role": "user", "content": parts}] * 4000}
    check_contents(json.dumps(body).encode(), NUMBERS)


@pytest.mark.behaviour(
    "a list of many mistakes is refused at its first",
    report="own finding: 200 KB of empty content parts held up every stream for a second",
)
@pytest.mark.parametrize(
    ("model", "body"),
    [
        (CompletionRequest, {"prompt": [1, *["a"] * 5000]}),
        (CompletionRequest, {"prompt": [[1, *["a"] * 5000]] * 9}),
        (CompletionRequest, {"prompt": ["a", *[1] * 200]}),
        (CompletionRequest, {"prompt": "a", "stop": [1] * 5000}),
        (CompletionRequest, {"prompt": "a", "bad_words": [1] * 5000}),
        (CompletionRequest, {"prompt": "a", "stop_token_ids": ["a"] * 5000}),
        (CompletionRequest, {"prompt": "a", "logit_bias": {f"a{i}": "" for i in range(5000)}}),
        (ChatRequest, {"messages": [{}] * 5000}),
        (ChatRequest, {"messages": [{**USER, "content": [{}] * 5000}]}),
        (ChatRequest, {"messages": [{**USER, "tool_calls": [{}] * 5000}]}),
        (ChatRequest, {"messages": [USER], "tools": [{}] * 5000}),
        (
            ChatRequest,
            {"messages": [USER], "chat_template_kwargs": {f"-{i}": 1 for i in range(5000)}},
        ),
        (TokenizeRequest, {"messages": [{}] * 5000}),
        (DetokenizeRequest, {"tokens": ["a"] * 5000}),
    ],
)
def test_the_first_mistake_is_enough(model: type[BaseModel], body: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as caught:
        model.model_validate_json(json.dumps(body))
    assert caught.value.error_count() < 10


def test_collections_go_on_after_a_parse() -> None:
    assert gc.isenabled()
    with contextlib.suppress(KeyError), uncollected():
        assert not gc.isenabled()
        raise KeyError
    assert gc.isenabled()


@pytest.mark.behaviour(
    "a body nested however deeply, at whatever length, is a 400 on every route that reads one",
    report="own finding: a long one ended in a 500",
)
@pytest.mark.parametrize(
    "path", ["v1/completions", "v1/chat/completions", "tokenize", "detokenize"]
)
@pytest.mark.parametrize("depth", [300, 30_000, 200_000])
@pytest.mark.parametrize("field", ["prompt", "messages", "tokens", "metadata", "tools"])
def test_depth(http: httpx.Client, path: str, depth: int, field: str) -> None:
    for opening, closing in (("[", "]"), ('{"a":', "}")):
        nested = opening * depth + "1" + closing * depth
        answer = http.post(f"/{path}", content=f'{{"{field}": {nested}}}')
        assert answer.status_code == 400, answer.text
        assert answer.json()["error"]["code"] in ("invalid_json", "invalid_value")


def test_the_server_counts_what_bodies_hold(http: httpx.Client) -> None:
    body: dict[str, Any] = {"prompt": "abc", "max_tokens": 2, "metadata": [[1]] * 30_000}
    assert http.post("/v1/completions", json=body).status_code == 200
    answer = http.post("/v1/completions", json={**body, "x": [[1]] * 40_000})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_value")
    answer = http.post("/v1/completions", json={"prompt": [1] * 2_000_000})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "context_length_exceeded")
