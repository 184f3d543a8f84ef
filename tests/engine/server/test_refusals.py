"""Everything a client can do wrong: status, code and field, never a 500."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import openai
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openai import OpenAI

from paceline_engine.server.errors import ContextLengthError
from paceline_engine.server.prompts import chat_prompt, encode_prompts
from paceline_engine.server.validation import parse_body
from paceline_engine.server.wire import ChatRequest
from paceline_engine.tokenizer import Tokenizer
from paceline_engine.tokenizer.byte_vocabulary import VOCAB_SIZE
from paceline_engine.tokenizer.vocabulary import Vocabulary
from tests.support.engine_server import engine_server

TEXT = "/v1/completions"
CHAT = "/v1/chat/completions"
USER = [{"role": "user", "content": "x"}]


def post(http: httpx.Client, path: str, body: object) -> tuple[int, dict[str, Any]]:
    answer = http.post(path, content=body if isinstance(body, bytes) else json.dumps(body))
    return answer.status_code, answer.json()["error"]


@pytest.mark.behaviour(
    "every token id from a caller is checked against the vocabulary",
    report="vllm #54195, PR #16529, #6866: ids beyond it killed the engine or a neighbour's row",
)
@pytest.mark.behaviour(
    "an empty prompt is a 400 for that request only",
    report="vllm #7283, #7632, #1130: it stopped the whole engine",
)
@pytest.mark.parametrize(
    ("path", "body", "param", "code"),
    [
        (TEXT, {}, "prompt", "invalid_value"),
        (TEXT, {"prompt": None}, "prompt", "invalid_value"),
        (TEXT, {"prompt": ""}, "prompt", None),
        (TEXT, {"prompt": []}, "prompt", None),
        (TEXT, {"prompt": ["a", ""]}, "prompt", None),
        (TEXT, {"prompt": ["a", 1]}, "prompt", "invalid_value"),
        (TEXT, {"prompt": [1.5]}, "prompt", "invalid_value"),
        (TEXT, {"prompt": {"a": 1}}, "prompt", "invalid_value"),
        (TEXT, {"prompt": [-1]}, "prompt", None),
        (TEXT, {"prompt": [VOCAB_SIZE]}, "prompt", None),
        (TEXT, {"prompt": [10**30]}, "prompt", None),
        (TEXT, {"prompt": ["a"] * 257}, "prompt", "invalid_value"),
        (TEXT, {"prompt": "x", "max_tokens": 0}, "max_tokens", "invalid_value"),
        (TEXT, {"prompt": "x", "max_tokens": "many"}, "max_tokens", "invalid_value"),
        (TEXT, {"prompt": "x", "temperature": -1}, "temperature", "invalid_value"),
        (TEXT, {"prompt": "x", "top_p": 0}, "top_p", "invalid_value"),
        (TEXT, {"prompt": "x", "top_p": 1.1}, "top_p", "invalid_value"),
        (TEXT, {"prompt": "x", "seed": 2**63}, "seed", "invalid_value"),
        (TEXT, {"prompt": "x", "stop": ["a"] * 33}, "stop", "invalid_value"),
        (TEXT, {"prompt": "x", "stop": [""]}, "stop", "invalid_value"),
        (TEXT, {"prompt": "x", "stop_token_ids": [VOCAB_SIZE]}, "stop_token_ids", None),
        (TEXT, {"prompt": "x", "stream": "maybe"}, "stream", "invalid_value"),
        (TEXT, {"prompt": "x", "stream_options": 1}, "stream_options", "invalid_value"),
        (TEXT, {"prompt": "x", "logit_bias": {str(VOCAB_SIZE): 1}}, "logit_bias", None),
        (CHAT, {"messages": USER, "logit_bias": {"9" * 10: 1}}, "logit_bias", None),
        (CHAT, {"messages": USER, "stop_token_ids": [-1]}, "stop_token_ids", None),
        (TEXT, {"prompt": "x", "suffix": "y"}, "suffix", "unsupported"),
        (TEXT, {"prompt": "x", "bad_words": ["a"] * 257}, "bad_words", "invalid_value"),
        (TEXT, {"prompt": "x", "bad_words": [f"{i:03}" * 150 for i in range(256)]}, "bad_words",
         "invalid_value"),
        (TEXT, {"prompt": ["a"] * 200, "n": 8}, None, "never_fits"),
        (TEXT, {"prompt": ["a"] * 10, "best_of": 128}, None, "never_fits"),
        (CHAT, {}, "messages", "invalid_value"),
        (CHAT, {"messages": []}, "messages", "invalid_value"),
        (CHAT, {"messages": "x"}, "messages", "invalid_value"),
        (CHAT, {"messages": [{"role": "boss", "content": "x"}]}, "messages", "invalid_value"),
        (CHAT, {"messages": [{"role": "user", "content": 1}]}, "messages", "invalid_value"),
        (
            CHAT,
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            "messages",
            "invalid_value",
        ),
        (CHAT, {"messages": USER, "tools": [{}]}, "tools", "invalid_value"),
        (
            CHAT,
            {"messages": USER, "tools": [{"type": "function", "function": {"name": "f"}}]},
            "tools",
            "unsupported",
        ),
        (
            CHAT,
            {"messages": USER, "max_completion_tokens": 0},
            "max_completion_tokens",
            "invalid_value",
        ),
        (
            CHAT,
            {"messages": USER, "response_format": {"type": "json_object"}},
            "response_format",
            "unsupported",
        ),
        (TEXT, [1], None, "invalid_value"),
        (TEXT, b"{", None, "invalid_json"),
        (TEXT, b"", None, "invalid_json"),
        (TEXT, b'{"prompt": "\\ud800"}', None, "invalid_json"),
        (TEXT, b'{"prompt": "\xff"}', None, "invalid_json"),
        (TEXT, b'{"prompt": "x", "temperature": NaN}', "temperature", "invalid_value"),
        (TEXT, b'{"prompt": ' + b"[" * 5000 + b"]" * 5000 + b"}", None, "invalid_json"),
    ],
)  # fmt: skip
def test_bad_fields_are_named(
    http: httpx.Client, path: str, body: object, param: str | None, code: str | None
) -> None:
    status, error = post(http, path, body)
    assert status == 400, error
    assert (error["param"], error["code"]) == (param, code)
    assert error["type"] == "invalid_request_error"
    assert error["message"]
    assert "\n" not in error["message"]


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        (TEXT, {"prompt": [97] * 400, "n": 128, "prompt_logprobs": 20}, "prompt_logprobs"),
        (TEXT, {"prompt": [97] * 400, "n": 125, "echo": True, "logprobs": 20}, "logprobs"),
        (TEXT, {"prompt": [[97] * 400] * 60, "n": 3, "prompt_logprobs": 20}, "prompt_logprobs"),
    ],
)
def test_too_many_log_probabilities_are_refused_with_the_numbers(
    http: httpx.Client, path: str, body: dict[str, Any], param: str
) -> None:
    status, error = post(http, path, {"max_tokens": 1, **body})
    assert (status, error["param"], error["code"]) == (400, param, "invalid_value")
    assert "1048576" in error["message"]
    assert "21 for each" in error["message"]


@pytest.mark.behaviour(
    "a call whose outputs could have more than 1,048,576 log-probabilities is a 400 with the "
    "numbers, streamed or not",
    report="own finding: one such call took 0.7 GB of the server's memory, past every plan",
)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("path", "body", "scores", "param"),
    [
        (TEXT, {"prompt": "x", "n": 128, "max_tokens": 400, "logprobs": 20}, 1075200, "logprobs"),
        (TEXT, {"prompt": ["x"] * 64, "n": 2, "max_tokens": 400, "logprobs": 20}, 1075200,
         "logprobs"),
        (CHAT, {"messages": USER, "n": 128, "max_tokens": 400, "logprobs": True,
                "top_logprobs": 20}, 1075200, "logprobs"),
    ],
)  # fmt: skip
def test_too_many_log_probabilities_of_outputs_are_refused_with_the_numbers(
    http: httpx.Client, path: str, body: dict[str, Any], scores: int, param: str, stream: bool
) -> None:
    status, error = post(http, path, {**body, "stream": stream})
    assert (status, error["param"], error["code"]) == (400, param, "invalid_value")
    assert f"{scores} log-probabilities" in error["message"]
    assert "limit is 1048576" in error["message"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
field_names = st.sampled_from(
    ["prompt", "messages", "stop", "seed", "top_k", "stream_options", "logit_bias", "n", "model",
     "temperature", "stop_token_ids", "tools", "ignore_eos", "service_tier", "logprobs", "echo",
     "best_of", "bad_words", "min_tokens", "prompt_logprobs", "chat_template_kwargs", "tool_choice",
     "max_tokens", "stream", "cache_salt", "continue_final_message"]
)  # fmt: skip


@given(st.dictionaries(field_names, json_values), st.sampled_from([TEXT, CHAT]))
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_no_body_is_a_server_error(http: httpx.Client, body: dict[str, Any], path: str) -> None:
    answer = http.post(path, content=json.dumps({"max_tokens": 1, **body}))
    assert answer.status_code in (200, 400, 404)


@pytest.mark.parametrize(("path", "field"), [(TEXT, "prompt"), (CHAT, "messages")])
@pytest.mark.parametrize("stream", [False, True])
def test_context_length(http: httpx.Client, path: str, field: str, stream: bool) -> None:
    long = "a" * 600
    body = {"prompt": long, "messages": [{"role": "user", "content": long}], "stream": stream}
    status, error = post(http, path, body)
    assert status == 400
    assert (error["code"], error["param"]) == ("context_length_exceeded", field)
    count = 600 if path == TEXT else 619
    assert "512" in error["message"]
    assert str(count) in error["message"]


def test_longest_prompt_fits(http: httpx.Client) -> None:
    assert http.post(TEXT, json={"prompt": "a" * 511}).status_code == 200
    assert http.post(TEXT, json={"prompt": "a" * 512}).status_code == 400


def test_unknown_model_through_the_client(client: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        client.completions.create(model="other", prompt="x")
    assert caught.value.code == "model_not_found"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("other")


def test_unknown_path_and_method(http: httpx.Client) -> None:
    for answer, status in (
        (http.get("/v1/nothing"), 404),
        (http.get(TEXT), 405),
        (http.post("/v1/models"), 405),
        (http.put("/tokenize"), 405),
        (http.get("/v1/nothing", headers={"host": "["}), 404),
    ):
        assert answer.status_code == status
        assert answer.json()["error"]["type"] == "invalid_request_error"
        allowed = "GET" if answer.request.url.path == "/v1/models" else "POST"
        assert answer.headers.get("allow") == (allowed if status == 405 else None)


def test_bytes_that_are_no_http(http: httpx.Client) -> None:
    where = urlsplit(str(http.base_url))
    with socket.create_connection((where.hostname, where.port), timeout=5) as raw:
        raw.sendall(b"\x16\x03\x01 nonsense\r\n\r\n")
        answer = raw.makefile("rb").read()
    assert answer.startswith(b"HTTP/1.1 400")
    assert b'"error"' in answer


@pytest.mark.parametrize(
    ("given", "echoed"), [("abc-1", True), ("a" * 129, False), ("with space", False), ("", False)]
)
def test_request_id(http: httpx.Client, given: str, echoed: bool) -> None:
    for path in ("/v1/models", "/v1/nothing"):
        answer = http.get(path, headers={"x-request-id": given})
        assert (answer.headers["x-request-id"] == given) is echoed
        assert answer.headers["x-request-id"]


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text("first\nsecond\n")
    with (
        engine_server(f"--api-key-file={keys}", "--max-body-bytes=1Ki") as running,
        httpx.Client(base_url=running.api, timeout=10) as client,
    ):
        yield client


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ("Bearer first", 200),
        ("bearer second", 200),
        ("Bearer third", 401),
        ("Basic first", 401),
        ("", 401),
        ("Bearer", 401),
    ],
)
def test_api_key(strict: httpx.Client, header: str, status: int) -> None:
    for path in ("/v1/models", "/v1/models/simulated"):
        assert strict.get(path, headers={"authorization": header}).status_code == status
    for path, body in ((TEXT, {"prompt": "x"}), (CHAT, {"messages": USER})):
        asked = {**body, "max_tokens": 1}
        answer = strict.post(path, json=asked, headers={"authorization": header})
        assert answer.status_code == status


@pytest.mark.behaviour(
    "a header that says who calls is given once: of two keys none counts",
    report="own finding: the engine took the first of two keys, a proxy may take the last",
)
def test_two_keys(strict: httpx.Client) -> None:
    headers = [("authorization", "Bearer first"), ("authorization", "Bearer second")]
    for path in ("/v1/models", "/v1/models/simulated"):
        assert_twice(strict.get(path, headers=headers))
    for path in (TEXT, CHAT, "/tokenize", "/detokenize"):
        assert_twice(strict.post(path, json={}, headers=headers))


def assert_twice(answer: httpx.Response) -> None:
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "authorization"


def test_api_key_through_the_client(strict: httpx.Client) -> None:
    with (
        OpenAI(base_url=f"{strict.base_url}/v1", api_key="wrong", max_retries=0) as client,
        pytest.raises(openai.AuthenticationError) as caught,
    ):
        client.models.list()
    assert caught.value.code == "invalid_api_key"


@pytest.mark.parametrize("chunked", [False, True])
def test_body_above_the_limit(strict: httpx.Client, chunked: bool) -> None:
    def body(size: int) -> Iterator[bytes] | bytes:
        whole = json.dumps({"prompt": "a" * (size - 14)}).encode()
        assert len(whole) == size
        return iter([whole[:500], whole[500:]]) if chunked else whole

    headers = {"authorization": "Bearer first"}
    assert strict.post(TEXT, content=body(1024), headers=headers).status_code == 200
    refused = strict.post(TEXT, content=body(1025), headers=headers)
    assert refused.status_code == 413
    assert refused.json()["error"]["code"] == "body_too_large"


def unsent(url: str) -> bytes:
    """Answer to a call whose body never comes."""
    where = urlsplit(url)
    with socket.create_connection((where.hostname, where.port), timeout=5) as raw:
        raw.sendall(
            b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
            b"content-length: 100000\r\nconnection: close\r\n\r\n"
        )
        return raw.recv(65536)


def test_a_server_that_loads_says_so_before_it_reads_a_body() -> None:
    with engine_server("--load-seconds=60", ready=False) as loading:
        assert unsent(loading.api).startswith(b"HTTP/1.1 503")
        assert loading.value("rejected_total", reason="not_ready") == 1


def test_a_server_that_drains_says_so_before_it_reads_a_body() -> None:
    with engine_server("--drain-grace-seconds=0") as draining:
        httpx.post(draining.admin + "/admin/drain")
        assert unsent(draining.api).startswith(b"HTTP/1.1 503")
        assert draining.value("rejected_total", reason="draining") == 1


class _NoEncoder(Tokenizer):
    """A tokenizer that must not be asked."""

    def encode(self, text: str, **_options: bool) -> list[int]:
        raise AssertionError("encoded")

    def apply_chat_template(self, messages: object, **_options: object) -> list[int]:
        raise AssertionError("encoded")


async def test_a_text_that_cannot_fit_is_not_encoded() -> None:
    table = tuple(bytes([byte]) * 4 for byte in range(256))
    tokenizer = _NoEncoder(
        Vocabulary(token_bytes=table, specials=(), eos_token_ids=()), lambda _text: []
    )
    with pytest.raises(ContextLengthError, match="101 at least"):
        await encode_prompts(["x" * 401], tokenizer, limit=100)
    with pytest.raises(ContextLengthError, match="101 at least"):
        await encode_prompts(["\u20ac" * 134], tokenizer, limit=100)
    messages = [{"role": "user", "content": "x" * 401}]
    chat = parse_body(ChatRequest, json.dumps({"messages": messages}).encode())
    with pytest.raises(ContextLengthError, match="101 at least"):
        await chat_prompt(chat, chat.messages, tokenizer, limit=100)


async def test_many_short_texts_are_encoded_off_the_loop() -> None:
    here = threading.get_ident()
    seen: set[int] = set()

    def encode(text: str) -> list[int]:
        seen.add(threading.get_ident())
        return list(text.encode())

    table = tuple(bytes([byte]) for byte in range(256))
    vocabulary = Vocabulary(token_bytes=table, specials=(), eos_token_ids=())
    await encode_prompts(["short"] * 3, Tokenizer(vocabulary, encode), limit=8192)
    assert seen == {here}
    await encode_prompts(["x" * 100] * 100, Tokenizer(vocabulary, encode), limit=8192)
    assert len(seen - {here}) == 1


@pytest.mark.parametrize(
    "more",
    [
        {"messages": [{"role": "user", "content": "a", "reasoning_content": "x" * 9000}]},
        {"messages": [{"role": "user", "content": "a", "name": "x" * 9000}]},
        {"chat_template_kwargs": {"a": {"b": ["x" * 9000]}}},
        {
            "messages": [
                {
                    "role": "assistant",
                    "tool_calls": [
                        {"function": {"name": "f", "arguments": json.dumps({"a": "x" * 9000})}}
                    ],
                }
            ]
        },
    ],
)
async def test_all_that_a_template_is_given_counts(more: dict[str, Any]) -> None:
    """It is rendered off the loop, and refused unrendered where it is too much."""
    seen: list[int] = []

    class Recorder(_NoEncoder):
        def apply_chat_template(self, messages: object, **_options: object) -> list[int]:
            seen.append(threading.get_ident())
            return [1]

    table = tuple(bytes([byte]) for byte in range(256))
    vocabulary = Vocabulary(token_bytes=table, specials=(), eos_token_ids=())
    tokenizer = Recorder(vocabulary, lambda _text: [])
    short = {"messages": [{"role": "user", "content": "a"}]}
    chat = parse_body(ChatRequest, json.dumps({**short, **more}).encode())
    await chat_prompt(chat, chat.messages, tokenizer, limit=9000)
    assert seen != [threading.get_ident()]
    assert len(seen) == 1
    with pytest.raises(ContextLengthError, match="may have 4000;"):
        await chat_prompt(chat, chat.messages, tokenizer, limit=1000)
    assert len(seen) == 1
