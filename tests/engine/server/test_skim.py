from __future__ import annotations

import contextlib
import gc
import json
import tracemalloc
from typing import Any

import httpx
import pytest
from pydantic import BaseModel

from paceline_engine.server.errors import BadRequestError
from paceline_engine.server.skim import MAX_PARTS, MAX_VALUES, skim, uncollected
from paceline_engine.server.tokenize_wire import TokenizeRequest
from paceline_engine.server.validation import parse_body
from paceline_engine.server.wire import ChatRequest, CompletionRequest

MANY = 300_000
USER = {"role": "user", "content": "a"}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"enum": [0] * MANY}}}
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}


@pytest.mark.behaviour(
    "a body with more than a call may bring is refused before its values are made into objects",
    report="own finding: 5 MB of small lists in a field nobody reads held up every stream for "
    "seconds",
)
@pytest.mark.parametrize(
    ("model", "body", "param"),
    [
        (CompletionRequest, {"prompt": "a", "stop": ["ab"] * MANY}, "stop"),
        (CompletionRequest, {"prompt": "a", "stop_token_ids": [1] * MANY}, "stop_token_ids"),
        (CompletionRequest, {"prompt": "a", "bad_words": ["ab"] * MANY}, "bad_words"),
        (CompletionRequest, {"prompt": "a", "user": "a" * MANY}, "user"),
        (
            CompletionRequest,
            {"prompt": "a", "logit_bias": {str(i): 1 for i in range(MANY)}},
            "logit_bias",
        ),
        (ChatRequest, {"messages": [USER] * MANY}, "messages"),
        (
            ChatRequest,
            {"messages": [{**USER, "content": [{"type": "text", "text": ""}] * MANY}]},
            "messages",
        ),
        (ChatRequest, {"messages": [{**USER, "tool_calls": [CALL] * MANY}]}, "messages"),
        (ChatRequest, {"messages": [USER], "tools": [TOOL]}, "tools"),
        (
            TokenizeRequest,
            {"messages": [USER], "chat_template_kwargs": {"a": [[]] * MANY}},
            "chat_template_kwargs",
        ),
    ],
)
def test_too_much_is_refused_at_a_glance(
    model: type[BaseModel], body: dict[str, Any], param: str
) -> None:
    raw = json.dumps(body).encode()
    with pytest.raises(BadRequestError) as caught:
        skim(raw, model)
    assert (caught.value.param, caught.value.code) == (param, "invalid_value")


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"[" + b"[]," * MANY + b"1]", "invalid_value"),
        (b'{"prompt": "' + b"a" * MANY, "invalid_json"),
        (b'{"prompt": "a"} trailing', "invalid_json"),
        (b"\xff" * MANY, "invalid_json"),
        (b"", "invalid_json"),
    ],
)
def test_what_is_no_object_is_refused(raw: bytes, code: str) -> None:
    with pytest.raises(BadRequestError) as caught:
        skim(raw, CompletionRequest)
    assert caught.value.code == code


def test_fields_that_nobody_reads_cost_nothing() -> None:
    raw = json.dumps({"prompt": "a", "metadata": [[1]] * MANY, "seed": 3}).encode()
    tracemalloc.start()
    try:
        body = parse_body(CompletionRequest, skim(raw, CompletionRequest))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (body.prompt, body.seed) == ("a", 3)
    assert body.model_extra == {"metadata": None}  # its name is still known
    assert peak < 2 * len(raw)


@pytest.mark.parametrize("field", ["guided_json", "documents", "kv_transfer_params"])
def test_what_is_not_served_is_refused_whatever_its_length(field: str) -> None:
    raw = json.dumps({"prompt": "a", field: [[1]] * MANY}).encode()
    with pytest.raises(BadRequestError) as caught:
        parse_body(CompletionRequest, skim(raw, CompletionRequest))
    assert (caught.value.param, caught.value.code) == (field, "unsupported")


@pytest.mark.parametrize(
    ("model", "body"),
    [
        (CompletionRequest, {"prompt": 'a, "b" [{\n\\€' * 50_000, "stop": [","] * 32}),
        (CompletionRequest, {"prompt": [[1] * 2000] * 200, "echo": True, "x": 1}),
        (ChatRequest, {"messages": [{**USER, "content": "{,[" * 100}] * 4096}),
        (
            ChatRequest,
            {"messages": [{**USER, "content": [{"type": "text", "text": "a"}] * MAX_PARTS}]},
        ),
        (ChatRequest, {"messages": [USER], "chat_template_kwargs": {"a": [0] * (MAX_VALUES - 9)}}),
    ],
)
def test_what_may_be_is_parsed_as_without(model: type[BaseModel], body: dict[str, Any]) -> None:
    raw = json.dumps(body).encode()
    assert parse_body(model, skim(raw, model)) == parse_body(model, raw)


def test_collections_go_on_after_a_parse() -> None:
    assert gc.isenabled()
    with contextlib.suppress(KeyError), uncollected():
        assert not gc.isenabled()
        raise KeyError
    assert gc.isenabled()


def test_the_server_skims_long_bodies(http: httpx.Client) -> None:
    body = {"prompt": "abc", "max_tokens": 2, "metadata": [[1]] * MANY}
    assert http.post("/v1/completions", json=body).status_code == 200
    answer = http.post("/v1/completions", json={**body, "stop": ["a"] * MANY})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "stop")
