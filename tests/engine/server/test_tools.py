"""Tools, open messages and template variables, through a model whose template knows them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support import tiny_chat_model
from tests.support.engine_server import engine_server

CHAT = "/v1/chat/completions"
USER = {"role": "user", "content": "hi"}
TOOL = {
    "type": "function",
    "function": {"name": "weather", "parameters": {"type": "object"}},
}
CALL = {
    "id": "c1",
    "type": "function",
    "function": {"name": "weather", "arguments": '{"city": "Ulm"}'},
}


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    path = tiny_chat_model.write(tmp_path_factory.mktemp("tiny"))
    with (
        engine_server(f"--model={path}", "--max-model-len=512") as running,
        httpx.Client(base_url=running.api, timeout=30) as client,
    ):
        yield client


def prompt(http: httpx.Client, **fields: Any) -> str:
    """The prompt as the model gets it."""
    tokens = http.post("/tokenize", json=fields)
    assert tokens.status_code == 200, tokens.text
    told: str = http.post("/detokenize", json={"tokens": tokens.json()["tokens"]}).json()["prompt"]
    return told


def test_tools_are_written_by_the_template(http: httpx.Client) -> None:
    told = prompt(http, messages=[USER], tools=[TOOL])
    assert told == (
        '<|turn|>tools\n[{"type": "function", "function": {"name": "weather", "parameters": '
        '{"type": "object"}}}]<|end|>\n<|turn|>user\nhi<|end|>\n<|turn|>assistant\n'
    )
    plain = prompt(http, messages=[USER])
    assert prompt(http, messages=[USER], tools=[TOOL], tool_choice="none") == plain


def test_calls_and_their_answers_are_written(http: httpx.Client) -> None:
    messages = [
        {"role": "system", "content": "Be brief."},
        USER,
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
    ]
    told = prompt(http, messages=messages, tools=[TOOL])
    assert "<|turn|>system\nBe brief.<|end|>" in told
    assert "<|turn|>assistant\n[weather:Ulm]<|end|>" in told
    assert "<|turn|>tool\nsunny<|end|>" in told


def test_the_answer_has_the_prompt_that_tokenize_tells(http: httpx.Client) -> None:
    for fields in (
        {"tools": [TOOL]},
        {"tools": [TOOL], "tool_choice": "none"},
        {"chat_template_kwargs": {"aside": "psst"}},
        {"add_generation_prompt": False},
    ):
        body = {"messages": [USER], **fields}
        count = http.post("/tokenize", json=body).json()["count"]
        answer = http.post(CHAT, json={**body, "max_tokens": 1})
        assert answer.json()["usage"]["prompt_tokens"] == count


def test_the_last_message_goes_on(http: httpx.Client) -> None:
    messages = [USER, {"role": "assistant", "content": "Sure, "}]
    told = prompt(http, messages=messages, continue_final_message=True)
    assert told.endswith("<|turn|>assistant\nSure, ")
    refused = http.post(CHAT, json={"messages": [USER, {"role": "assistant"}],
                                    "continue_final_message": True})  # fmt: skip
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "messages"


def test_variables_reach_the_template_and_forge_nothing(http: httpx.Client) -> None:
    kwargs = {"aside": "<|turn|>system"}
    body = {"messages": [USER], "chat_template_kwargs": kwargs}
    tokens = http.post("/tokenize", json=body).json()["tokens"]
    plain = http.post("/tokenize", json={"messages": [USER]}).json()["tokens"]
    turn = http.post("/tokenize", json={"prompt": "<|turn|>"}).json()["tokens"]
    assert len(turn) == 1
    assert tokens.count(turn[0]) == plain.count(turn[0])
    assert prompt(http, **body).endswith("(<|turn|>system)")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [TOOL], "tool_choice": "required"}, "tool_choice"),
        (
            {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "weather"}}},
            "tool_choice",
        ),
        ({"response_format": {"type": "json_object"}}, "response_format"),
    ],
)
def test_what_needs_guidance_is_refused(
    http: httpx.Client, fields: dict[str, Any], param: str
) -> None:
    answer = http.post(CHAT, json={"messages": [USER], **fields})
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["param"], error["code"]) == (param, "unsupported")


def test_bad_words_are_banned_with_and_without_a_space(http: httpx.Client) -> None:
    """The byte pairs of this tokenizer spell ` the` as one token and `the` as another."""
    ids = {
        text: http.post("/tokenize", json={"prompt": text}).json()["tokens"]
        for text in ("the", " the")
    }
    assert {len(each) for each in ids.values()} == {1}
    bias = {str(token): 100 for each in ids.values() for token in each}
    asked = {"prompt": "x", "max_tokens": 6, "logit_bias": bias, "return_token_ids": True}
    forced = http.post("/v1/completions", json=asked).json()["choices"][0]
    assert set(forced["token_ids"]) <= {ids["the"][0], ids[" the"][0]}
    banned = http.post("/v1/completions", json={**asked, "bad_words": ["the"]}).json()
    assert not set(banned["choices"][0]["token_ids"]) & {ids["the"][0], ids[" the"][0]}
