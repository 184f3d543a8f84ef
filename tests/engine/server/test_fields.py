"""Bodies by themselves: what is taken, what is refused and under which name."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from paceline_engine.request import Tier
from paceline_engine.sampling import SamplingParams
from paceline_engine.server.errors import BadRequestError, ContextLengthError
from paceline_engine.server.known_fields import NEUTRAL
from paceline_engine.server.validation import parse_body
from paceline_engine.server.wire import ChatRequest, CompletionRequest

Body = CompletionRequest | ChatRequest


def completion(**fields: Any) -> CompletionRequest:
    return parse_body(CompletionRequest, json.dumps({"prompt": "x", **fields}).encode())


def chat(**fields: Any) -> ChatRequest:
    messages = [{"role": "user", "content": "x"}]
    return parse_body(ChatRequest, json.dumps({"messages": messages, **fields}).encode())


def params(body: Body) -> SamplingParams:
    return body.params(max_tokens=8, seed=3)


def test_defaults_are_the_engine_s() -> None:
    for body in (completion(), chat()):
        assert params(body) == SamplingParams(max_tokens=8, seed=3)
        assert (body.choices, body.candidates, body.tier) == (1, 1, Tier.INTERACTIVE)
        assert body.needed_prompt_logprobs() is None
    assert completion().output_limit == 16
    assert chat().output_limit is None


def test_null_is_the_default_everywhere() -> None:
    for make, model in ((completion, CompletionRequest), (chat, ChatRequest)):
        names = model.model_fields.keys() - {"prompt", "messages"}
        body = make(**dict.fromkeys([*names, *NEUTRAL]))  # type: ignore[operator]  # one of two
        assert params(body) == SamplingParams(max_tokens=8, seed=3)


def test_every_sampling_field_reaches_the_engine() -> None:
    asked = {
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 5,
        "min_p": 0.1,
        "min_tokens": 2,
        "presence_penalty": -2,
        "frequency_penalty": 2,
        "repetition_penalty": 1.5,
        "logit_bias": {"7": -100, "3": 100},
        "stop_token_ids": [4],
        "ignore_eos": True,
    }
    expected = SamplingParams(
        temperature=0.5,
        top_p=0.9,
        top_k=5,
        min_p=0.1,
        min_tokens=2,
        presence_penalty=-2.0,
        frequency_penalty=2.0,
        repetition_penalty=1.5,
        logit_bias=((3, 100.0), (7, -100.0)),
        stop_token_ids=(4,),
        ignore_eos=True,
        max_tokens=8,
        seed=3,
        bad_words=((1, 2),),
    )
    for body in (completion(**asked), chat(**asked)):
        assert body.params(max_tokens=8, seed=3, bad_words=((1, 2),)) == expected


@pytest.mark.parametrize(
    ("body", "shown", "engine", "prompt"),
    [
        (completion(logprobs=0), 0, 0, None),
        (completion(logprobs=5), 5, 5, None),
        (completion(logprobs=5, echo=True), 5, 5, 5),
        (completion(logprobs=2, echo=True, prompt_logprobs=4), 2, 2, 4),
        (completion(prompt_logprobs=0), None, None, 0),
        (completion(echo=True), None, None, None),
        (completion(n=1, best_of=2), None, 0, None),
        (completion(n=2, best_of=2), None, None, None),
        (chat(logprobs=True), 0, 0, None),
        (chat(logprobs=True, top_logprobs=20), 20, 20, None),
        (chat(logprobs=False, top_logprobs=0), None, None, None),
        (chat(prompt_logprobs=1), None, None, 1),
    ],
)
def test_log_probabilities_asked_for(
    body: Body, shown: int | None, engine: int | None, prompt: int | None
) -> None:
    assert body.shown_logprobs == shown
    assert params(body).logprobs == engine
    assert body.needed_prompt_logprobs() == prompt


@pytest.mark.parametrize(
    ("tier", "served"),
    [
        ("auto", Tier.INTERACTIVE),
        ("default", Tier.INTERACTIVE),
        ("priority", Tier.INTERACTIVE),
        ("scale", Tier.INTERACTIVE),
        ("flex", Tier.BATCH),
    ],
)
def test_tiers(tier: str, served: Tier) -> None:
    assert completion(service_tier=tier).tier is served


ZERO = {"max_tokens": 0}
TOOL = {"type": "function", "function": {"name": "f"}}


@pytest.mark.behaviour(
    "max_tokens 0 is valid with echo and refused without",
    report="vllm #6521, #28172: max_tokens = 0 with echo crashed or was off by one",
)
@pytest.mark.parametrize(
    ("make", "fields", "param"),
    [
        (completion, ZERO, "max_tokens"),
        (chat, ZERO, "max_tokens"),
        (completion, {"n": 0}, "n"),
        (completion, {"n": 129}, "n"),
        (completion, {"n": 3, "best_of": 2}, "best_of"),
        (completion, {"best_of": 129}, "best_of"),
        (completion, {"best_of": 2, "stream": True}, "best_of"),
        (completion, {"logprobs": 21}, "logprobs"),
        (completion, {"logprobs": -1}, "logprobs"),
        (completion, {"logprobs": True}, "logprobs"),
        (completion, {"prompt_logprobs": 1, "stream": True}, "prompt_logprobs"),
        (completion, {"stream_options": {"include_usage": True}}, "stream_options"),
        (completion, {"min_tokens": 17}, "min_tokens"),
        (completion, {"min_tokens": 5, "max_tokens": 4}, "min_tokens"),
        (completion, {"min_p": 1.1}, "min_p"),
        (completion, {"presence_penalty": 2.1}, "presence_penalty"),
        (completion, {"frequency_penalty": -2.1}, "frequency_penalty"),
        (completion, {"repetition_penalty": 0}, "repetition_penalty"),
        (completion, {"repetition_penalty": 1e-38}, "repetition_penalty"),
        (completion, {"repetition_penalty": 100.1}, "repetition_penalty"),
        (completion, {"temperature": 2.1}, "temperature"),
        (completion, {"temperature": "0.5"}, "temperature"),
        (completion, {"max_tokens": "5"}, "max_tokens"),
        (completion, {"stream": "true"}, "stream"),
        (completion, {"logit_bias": {"a": 1}}, "logit_bias"),
        (completion, {"logit_bias": {"-1": 1}}, "logit_bias"),
        (completion, {"logit_bias": {"5": 101}}, "logit_bias"),
        (completion, {"logit_bias": {str(i): 1 for i in range(1025)}}, "logit_bias"),
        (completion, {"bad_words": [""]}, "bad_words"),
        (completion, {"bad_words": ["a"] * 257}, "bad_words"),
        (completion, {"service_tier": "gold"}, "service_tier"),
        (completion, {"cache_salt": ""}, "cache_salt"),
        (completion, {"suffix": "end"}, "suffix"),
        (chat, {"top_logprobs": 2}, "top_logprobs"),
        (chat, {"logprobs": 2}, "logprobs"),
        (chat, {"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        (chat, {"tool_choice": "required", "tools": [TOOL]}, "tool_choice"),
        (chat, {"tool_choice": {"type": "function"}, "tools": [TOOL]}, "tool_choice"),
        (chat, {"tool_choice": "auto"}, "tool_choice"),
        (chat, {"tools": [{"type": "function"}]}, "tools"),
        (chat, {"response_format": {"type": "json_schema"}}, "response_format"),
        (chat, {"functions": [{"name": "f"}]}, "functions"),
        (chat, {"chat_template": "x"}, "chat_template"),
        (chat, {"echo": True}, "echo"),
        (chat, {"priority": 1}, "priority"),
        (chat, {"chat_template_kwargs": {"messages": []}}, "chat_template_kwargs"),
        (chat, {"chat_template_kwargs": {"not a name": 1}}, "chat_template_kwargs"),
        (
            chat,
            {"continue_final_message": True, "add_generation_prompt": True},
            "continue_final_message",
        ),
    ],
)  # fmt: skip
def test_refused(make: Any, fields: dict[str, Any], param: str) -> None:
    with pytest.raises(BadRequestError) as refused:
        make(**fields)
    assert refused.value.param == param
    assert refused.value.code in ("invalid_value", "unsupported")


@pytest.mark.parametrize(
    "fields",
    [
        {"max_tokens": 0, "echo": True},
        {"n": 128},
        {"n": 2, "best_of": 5},
        {"n": 2, "best_of": 2, "stream": True},
        {"logprobs": 20},
        {"min_tokens": 16},
        {"stop": "x"},
        {"stop": ["x"] * 32},
        {"stream": True, "stream_options": {"continuous_usage_stats": True}},
        {"suffix": ""},
        {"response_format": {"type": "text"}},
        {"nobody_knows": {"this": 1}},
        {"user": "somebody", "cache_salt": "s"},
    ],
)
def test_taken(fields: dict[str, Any]) -> None:
    completion(**fields)


def test_a_field_may_not_be_infinite_or_no_number() -> None:
    for text in ("NaN", "Infinity", "1e999"):
        with pytest.raises(BadRequestError) as refused:
            parse_body(CompletionRequest, b'{"prompt": "x", "min_p": %s}' % text.encode())
        assert refused.value.param in ("min_p", None)
        with pytest.raises(BadRequestError):
            parse_body(
                CompletionRequest, b'{"prompt": "x", "logit_bias": {"1": %s}}' % text.encode()
            )


def test_unknown_fields_are_logged_by_name_alone(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        completion(temprature=0.5, secret_field="my prompt", **{"a b": 1, "suffix": None})
    assert "secret_field, temprature" in caplog.text
    assert "my prompt" not in caplog.text
    assert "suffix" not in caplog.text


@pytest.mark.parametrize(
    ("fields", "opens", "tools"),
    [
        ({}, True, 0),
        ({"continue_final_message": True}, False, 0),
        ({"add_generation_prompt": False}, False, 0),
        ({"tools": [TOOL]}, True, 1),
        ({"tools": [TOOL], "tool_choice": "auto"}, True, 1),
        ({"tools": [TOOL], "tool_choice": "none"}, True, 0),
        ({"tools": []}, True, 0),
    ],
)
def test_template_fields(fields: dict[str, Any], opens: bool, tools: int) -> None:
    body = chat(**fields)
    assert body.opens_answer is opens
    assert len(body.offered_tools()) == tools


def test_a_message_is_given_with_all_that_is_set() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    body = chat(
        messages=[
            {"role": "assistant", "content": None, "tool_calls": [call], "odd": 1},
            {"role": "tool", "content": [{"type": "text", "text": "4"}], "tool_call_id": "c1"},
        ]
    )
    assert [message.as_given() for message in body.messages] == [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}}
            ],
        },
        {"role": "tool", "content": "4", "tool_call_id": "c1"},
    ]


@pytest.mark.parametrize("arguments", ["{", "[]", "1", "[" * 900 + "]" * 900, '{"a": NaN}'])
def test_arguments_that_are_no_object(arguments: str) -> None:
    call = {"function": {"name": "f", "arguments": arguments}}
    with pytest.raises(BadRequestError) as refused:
        chat(messages=[{"role": "assistant", "tool_calls": [call]}])
    assert refused.value.param == "messages"


@pytest.mark.behaviour(
    "Token ids that cannot fit are refused by their number, before each is looked at",
    report="own risk: a body of millions of ids holds up every stream while it is converted",
)
@pytest.mark.parametrize(
    ("prompt", "number"),
    [([1] * 100, 100), ([[1], [1] * 101], 101), ([1] * 100 + ["never looked at"], 101)],
)
def test_ids_that_cannot_fit(prompt: list[Any], number: int) -> None:
    body = json.dumps({"prompt": prompt}).encode()
    with pytest.raises(ContextLengthError, match=f"holds 100 tokens.* has {number};") as caught:
        parse_body(CompletionRequest, body, context_tokens=100)
    assert (caught.value.param, caught.value.code) == ("prompt", "context_length_exceeded")


@pytest.mark.parametrize("prompt", [[1] * 99, [[1], [2] * 99], ["ab"], "ab"])
def test_ids_that_fit(prompt: list[Any] | str) -> None:
    raw = json.dumps({"prompt": prompt}).encode()
    prompts = parse_body(CompletionRequest, raw, context_tokens=100).prompts()
    lists = prompt if isinstance(prompt, list) and not isinstance(prompt[0], int) else [prompt]
    assert prompts == tuple(tuple(each) if isinstance(each, list) else each for each in lists)


def test_too_many_prompts() -> None:
    for prompt in (["a"] * 257, [[1]] * 257):
        with pytest.raises(BadRequestError, match="257 prompts in one call; the limit is 256"):
            completion(prompt=prompt)


def test_text_parts_are_lines() -> None:
    """As vLLM joins them for a template that takes texts."""
    parts = [{"type": "text", "text": text} for text in ("Look:", "", "done")]
    body = parse_body(
        ChatRequest, json.dumps({"messages": [{"role": "user", "content": parts}]}).encode()
    )
    assert body.messages[0].as_given()["content"] == "Look:\ndone"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"prompt": 5}, "prompt: must be a text, a list of texts, a list of token ids, or a list"),
        ({"prompt": [1, "a"]}, "prompt: must be a text, a list of texts"),
        ({"prompt": None}, "prompt: must be a text, a list of texts"),
        ({"stop": [5]}, "stop.0: must be a text"),
        ({"stop": [""]}, "stop.0: must have at least 1 characters"),
        ({"stop": ["a"] * 40}, "stop: may hold at most 32"),
        (
            {"service_tier": "gold"},
            "service_tier: must be one of auto, default, priority, scale, flex",
        ),
        ({"max_tokens": "5"}, "max_tokens: must be a whole number"),
        ({"temperature": 9}, "temperature: must be 2.0 or less"),
    ],
)
def test_mistakes_in_plain_words(given: dict[str, Any], said: str) -> None:
    with pytest.raises(BadRequestError) as caught:
        completion(**given)
    assert caught.value.message.startswith(said)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "messages: must hold at least 1"),
        (
            [{"role": "me"}],
            "messages.0.role: must be 'system', 'developer', 'user', 'assistant' or",
        ),
        ([5], "messages.0: must be an object"),
    ],
)
def test_mistakes_in_chats_in_plain_words(given: list[Any], said: str) -> None:
    with pytest.raises(BadRequestError) as caught:
        chat(messages=given)
    assert caught.value.message.startswith(said)
