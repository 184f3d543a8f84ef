"""A streamed answer says what the whole one says, on the simulated device and on a model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support import tiny_chat_model
from tests.support.engine_server import engine_server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
LOAD_S = 240.0


@pytest.fixture(scope="module", params=["simulated", "model"])
def http(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[httpx.Client]:
    flags, law = ["--max-model-len=512"], "base_ms=1,per_token_ms=0.01"
    if request.param == "model":
        path = tiny_chat_model.write(tmp_path_factory.mktemp("tiny"))
        flags += [f"--model={path}", "--kv-cache-memory=16Mi", "--threads=1"]
    used = None if request.param == "model" else law
    with engine_server(*flags, law=used, ready=False) as running:
        running.wait_for("ready after", timeout_s=LOAD_S)
        with httpx.Client(base_url=running.api, timeout=60) as client:
            yield client


@dataclass
class Told:
    """What is told of one choice, put together from its parts."""

    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[Any] = field(default_factory=list)
    finish_reason: str | None = None
    stop_reason: str | int | None = None

    def add(self, part: dict[str, Any]) -> None:
        assert self.finish_reason is None, "a part after the end"
        message = part.get("message") or part.get("delta") or {"content": part.get("text")}
        self.text += message["content"]
        self.token_ids += part["token_ids"]
        self.logprobs += places(part["logprobs"])
        self.finish_reason, self.stop_reason = part["finish_reason"], part["stop_reason"]


def places(logprobs: dict[str, Any] | None) -> list[Any]:
    if logprobs is None:
        return []
    if "content" in logprobs:
        return list(logprobs["content"])
    names = ("text_offset", "tokens", "token_logprobs", "top_logprobs")
    return list(zip(*(logprobs[name] for name in names), strict=True))


def whole(http: httpx.Client, path: str, body: dict[str, Any]) -> tuple[dict[int, Told], Any]:
    answer = http.post(path, json=body)
    assert answer.status_code == 200, answer.text
    told = {}
    for part in answer.json()["choices"]:
        told[part["index"]] = Told()
        told[part["index"]].add(part)
    return told, answer.json()["usage"]


def streamed(http: httpx.Client, path: str, body: dict[str, Any]) -> tuple[dict[int, Told], Any]:
    told: dict[int, Told] = {}
    asked = {**body, "stream": True, "stream_options": {"include_usage": True}}
    usage = None
    with http.stream("POST", path, json=asked) as answer:
        assert answer.status_code == 200
        for line in answer.iter_lines():
            if not line.startswith("data: {"):
                continue
            chunk = json.loads(line[6:])
            usage = chunk["usage"]
            for part in chunk["choices"]:
                told.setdefault(part["index"], Told()).add(part)
    return told, usage


texts = st.text("the inn a€", min_size=1, max_size=12)
shared = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2**32),
        "max_tokens": st.integers(1, 24),
        "n": st.integers(1, 3),
        "return_token_ids": st.just(True),
    },
    optional={
        "temperature": st.sampled_from([0, 0.7, 1.5]),
        "min_tokens": st.just(1),
        "include_stop_str_in_output": st.booleans(),
        "skip_special_tokens": st.booleans(),
        "ignore_eos": st.booleans(),
        "stop": st.lists(st.sampled_from(["a", "e", "th", " b", "ba", "\ufffd"]), max_size=3),
        "stop_token_ids": st.lists(st.integers(0, 255), max_size=20),
    },
)
completions = st.builds(
    lambda fields, more: fields | more,
    shared,
    st.fixed_dictionaries(
        {"prompt": texts | st.lists(texts, min_size=1, max_size=2)},
        optional={"logprobs": st.integers(0, 3), "echo": st.booleans()},
    ),
)
chats = st.builds(
    lambda fields, text, top: (
        fields
        | {"messages": [{"role": "user", "content": text}]}
        | ({} if top is None else {"logprobs": True, "top_logprobs": top})
    ),
    shared,
    texts,
    st.none() | st.integers(0, 3),
)
some = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def alike(one: Any, other: Any) -> bool:
    """Equal but for the last digits of numbers: steps of another make-up round otherwise."""
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) < 1e-3
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(alike, one, other))
    return bool(one == other)


def drawn(told: Told) -> int:
    """Tokens of an answer, with the end or stop token that is not shown."""
    is_ended_by_token = told.finish_reason == "stop" and not isinstance(told.stop_reason, str)
    return len(told.token_ids) + is_ended_by_token


def check(http: httpx.Client, path: str, body: dict[str, Any]) -> None:
    told, usage = whole(http, path, body)
    parts, streamed_usage = streamed(http, path, body)
    assert parts.keys() == told.keys()
    for index, each in told.items():
        assert alike(asdict(parts[index]), asdict(each))
    del usage["prompt_tokens_details"], streamed_usage["prompt_tokens_details"]
    assert streamed_usage == usage
    assert usage["completion_tokens"] == sum(map(drawn, told.values()))
    echoed = body.get("echo", False)
    for each in told.values():
        if body.get("logprobs") is not None and len(told) == body["n"]:
            before = usage["prompt_tokens"] if echoed else 0
            assert len(each.logprobs) == before + len(each.token_ids)
        if isinstance(each.stop_reason, str):
            shown = each.text.endswith(each.stop_reason)
            assert each.stop_reason in body["stop"]
            assert shown or not body.get("include_stop_str_in_output")


@pytest.mark.behaviour(
    "streamed and whole answers agree in text, ids, log-probabilities, reasons and usage",
    report="vllm PR #47616, #8625: later ids and logprobs were left, streamed usage was wrong",
)
@given(completions)
@some
def test_completions_agree(http: httpx.Client, body: dict[str, Any]) -> None:
    check(http, "/v1/completions", body)


@given(chats)
@some
def test_chats_agree(http: httpx.Client, body: dict[str, Any]) -> None:
    check(http, "/v1/chat/completions", body)


@pytest.mark.behaviour(
    "asking for log-probabilities, echo or prompt log-probabilities changes no text",
    report="vllm #8268, #5344, #13105: with prefix caching they hit an assertion",
)
def test_what_is_shown_beside_changes_no_text(http: httpx.Client) -> None:
    asked = {"prompt": "the inn " * 12, "seed": 4, "max_tokens": 12}

    def text(**more: Any) -> str:
        answer = http.post("/v1/completions", json={**asked, **more})
        assert answer.status_code == 200, answer.text
        return str(answer.json()["choices"][0]["text"])

    plain = text()
    for more in ({"logprobs": 3}, {"prompt_logprobs": 2}, {"n": 2}, {}):
        assert text(**more) == plain
    assert text(echo=True, logprobs=1) == asked["prompt"] + plain
