"""The API under generated requests: no 500, no hang, no leak, always the documented answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.specs.openapi.checks import positive_data_acceptance

from tests.support.engine_server import EngineServer, engine_server, eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

# The same requests in every run: a failure is a defect, never luck.
FUZZED = settings(
    max_examples=25, deadline=None, derandomize=True, database=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
ANSWER_S = 60.0
DEFECT = "defect:"
# A schema cannot say that a prompt fits the context, nor that 1.0 is no token id.
BEYOND_SCHEMA = [positive_data_acceptance]


@pytest.fixture(scope="module")
def server() -> Iterator[EngineServer]:
    flags = ("--max-model-len=128", "--max-num-seqs=8", "--max-queued-requests=512")
    with engine_server(*flags, law="base_ms=0.5,per_token_ms=0.001") as running:
        yield running
        check_sound(running)


def check_sound(server: EngineServer) -> None:
    """After all of it: alive, idle, nothing held, no defect in the log."""
    assert httpx.get(f"{server.health}/healthz", timeout=ANSWER_S).status_code == 200
    eventually(lambda: not server.value("requests_running"), within_s=ANSWER_S)
    assert server.value("requests_waiting") == 0
    assert server.value("kv_cache_blocks", state="held") == 0
    assert [line for line in server.log if DEFECT in line] == []


OPERATIONS = (
    "POST /v1/completions", "POST /v1/chat/completions", "POST /tokenize", "POST /detokenize",
    "GET /v1/models", "GET /v1/models/{name}",
)  # fmt: skip


@pytest.mark.behaviour(
    "a request that the OpenAPI document allows, or nearly, gets an answer that it documents",
    report="malformed bodies that end in 500 or take the engine down",
)
@pytest.mark.parametrize("name", OPERATIONS)
def test_the_document_holds(server: EngineServer, name: str) -> None:
    document = schemathesis.openapi.from_url(f"{server.api}/openapi.json")
    operations = {each.ok().label: each.ok() for each in document.get_all_operations()}
    assert set(operations) == set(OPERATIONS)

    @FUZZED
    @given(case=operations[name].as_strategy())
    def holds(case: schemathesis.Case) -> None:
        case.call_and_validate(timeout=ANSWER_S, excluded_checks=BEYOND_SCHEMA)

    holds()


SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
    | st.sampled_from([0, -1, 1e308, 2**31, 2**63, 2**64, -(2**63), "", "\x00", "\ud7ff", "é" * 40])
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)
FIELDS = (
    "prompt", "messages", "model", "max_tokens", "max_completion_tokens", "n", "best_of", "echo",
    "suffix", "logprobs", "top_logprobs", "prompt_logprobs", "presence_penalty",
    "frequency_penalty", "repetition_penalty", "temperature", "top_p", "top_k", "min_p",
    "min_tokens", "logit_bias", "bad_words", "stop", "stop_token_ids", "seed", "stream",
    "stream_options", "response_format", "tools", "tool_choice", "service_tier", "cache_salt",
    "ignore_eos", "skip_special_tokens", "user", "chat_template_kwargs", "unknown",
)  # fmt: skip
BODIES = st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=4)
GOOD = {
    "/v1/completions": {"prompt": "pace", "max_tokens": 3},
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "pace"}], "max_tokens": 3},
    "/tokenize": {"prompt": "pace"},
    "/detokenize": {"tokens": [1, 2]},
}
BYTES = (
    st.binary(max_size=200)
    | st.text(max_size=200).map(str.encode)
    | VALUES.map(json.dumps).map(str.encode)
)
DEPTHS = st.integers(1, 400) | st.sampled_from([10_000, 200_000, 400_000])
REFUSALS = {400, 404, 413, 429}


@pytest.mark.behaviour(
    "whatever value a field has, the answer is whole or one plain refusal that names the field",
    report="vllm #54195, #6866, #7632: one field with a strange value stops the engine",
)
@pytest.mark.parametrize("path", GOOD)
@settings(FUZZED, max_examples=60)
@given(changes=BODIES)
def test_any_field_with_any_value(server: EngineServer, path: str, changes: dict[str, Any]) -> None:
    body = json.dumps({**GOOD[path], **changes})
    check_answer(post(server, path, body.encode()))


@pytest.mark.parametrize("path", GOOD)
@settings(FUZZED, max_examples=60)
@given(
    body=st.binary(max_size=200)
    | st.text(max_size=200).map(str.encode)
    | VALUES.map(json.dumps).map(str.encode)
)
def test_any_bytes(server: EngineServer, path: str, body: bytes) -> None:
    check_answer(post(server, path, body))


@pytest.mark.parametrize("path", GOOD)
@FUZZED
@given(
    field=st.sampled_from(FIELDS),
    depth=DEPTHS,
    nest=st.sampled_from([("[", "]"), ('{"a":', "}"), ("[[1],", "]"), ("[", "")]),
    tail=st.sampled_from([0, 300_000]),
)
def test_any_depth_and_length(
    server: EngineServer, path: str, field: str, depth: int, nest: tuple[str, str], tail: int
) -> None:
    nested = nest[0] * depth + "1" + nest[1] * depth
    body = json.dumps(GOOD[path])[:-1] + f', "{field}": {nested}, "x": "{"a" * tail}"}}'
    check_answer(post(server, path, body.encode()))


def post(server: EngineServer, path: str, body: bytes) -> httpx.Response:
    headers = {"content-type": "application/json"}
    return httpx.post(f"{server.api}{path}", content=body, headers=headers, timeout=ANSWER_S)


def check_answer(reply: httpx.Response) -> None:
    if reply.status_code == 200:
        if reply.headers["content-type"].startswith("text/event-stream"):
            assert reply.text.endswith("data: [DONE]\n\n")
        else:
            reply.json()
        return
    assert reply.status_code in REFUSALS, (reply.status_code, reply.text)
    error = reply.json()["error"]
    assert error["message"]
    assert "\n" not in error["message"]
    assert set(error) == {"message", "type", "param", "code"}
