"""Stops, special tokens, tiers and ids: how an answer is shown and what it says of itself."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from paceline_engine.tokenizer import load_tokenizer
from paceline_engine.tokenizer.byte_vocabulary import END_OF_TEXT_ID, TURN_START_ID
from tests.support.engine_server import engine_server

TEXT = "/v1/completions"
TOKENIZER = load_tokenizer(None)


def choice(http: httpx.Client, **asked: Any) -> dict[str, Any]:
    body = {"prompt": "abc", "seed": 3, "max_tokens": 12, "return_token_ids": True, **asked}
    answer = http.post(TEXT, json=body)
    assert answer.status_code == 200, answer.text
    only: dict[str, Any] = answer.json()["choices"][0]
    return only


def test_a_stop_string_is_named_and_may_be_shown(http: httpx.Client) -> None:
    whole = choice(http)["text"]
    stop = whole[9:13]
    hidden, shown = (
        choice(http, stop=stop, include_stop_str_in_output=each) for each in (False, True)
    )
    assert hidden["text"] == whole[: whole.index(stop)]
    assert shown["text"] == hidden["text"] + stop
    assert hidden["stop_reason"] == shown["stop_reason"] == stop
    assert hidden["token_ids"] == shown["token_ids"]
    assert whole.startswith(TOKENIZER.decode(hidden["token_ids"])[: len(hidden["text"])])


def test_a_stop_token_is_named_and_may_be_shown(http: httpx.Client) -> None:
    ids = choice(http)["token_ids"]
    hidden, shown = (
        choice(http, stop_token_ids=[ids[5]], include_stop_str_in_output=each)
        for each in (False, True)
    )
    assert hidden["token_ids"] == shown["token_ids"] == ids[: ids.index(ids[5])]
    assert hidden["finish_reason"] == "stop"
    assert hidden["stop_reason"] == ids[5]
    assert shown["text"] == TOKENIZER.decode([*shown["token_ids"], ids[5]])


def test_an_end_token_is_a_stop_without_a_reason(http: httpx.Client) -> None:
    ended = choice(http, logit_bias={str(END_OF_TEXT_ID): 100})
    assert (ended["finish_reason"], ended["stop_reason"], ended["token_ids"]) == ("stop", None, [])


def test_stops_wait_for_the_least_tokens(http: httpx.Client) -> None:
    whole = choice(http)
    stop = TOKENIZER.decode(whole["token_ids"][:2])
    assert len(choice(http, stop=stop)["token_ids"]) == 2
    assert choice(http, stop=stop, min_tokens=2) == whole
    held = choice(http, stop_token_ids=whole["token_ids"][:1], min_tokens=4)
    assert len(held["token_ids"]) >= 4


def test_special_tokens_are_hidden_unless_asked_for(http: httpx.Client) -> None:
    forced = {"logit_bias": {str(TURN_START_ID): 100}, "max_tokens": 2}
    assert choice(http, **forced)["text"] == ""
    assert choice(http, **forced, skip_special_tokens=False)["text"] == "<|im_start|>" * 2


@pytest.mark.parametrize(
    ("asked", "served"), [(None, "default"), ("priority", "default"), ("flex", "flex")]
)
def test_the_served_tier_is_said(http: httpx.Client, asked: str | None, served: str) -> None:
    body = {"prompt": "x", "max_tokens": 1, "service_tier": asked}
    assert http.post(TEXT, json=body).json()["service_tier"] == served
    with httpx.stream("POST", f"{http.base_url}{TEXT}", json={**body, "stream": True}) as answer:
        assert f'"service_tier":"{served}"' in next(answer.iter_lines())


@pytest.mark.behaviour(
    "two live requests may share one X-Request-Id: it is echoed, never used as an id",
    report="vllm #10583, #15041: one client-given id twice crashed the engine",
)
def test_one_request_id_twice_at_a_time(http: httpx.Client) -> None:
    def ask(_index: int) -> tuple[int, str, str]:
        answer = httpx.post(
            f"{http.base_url}{TEXT}",
            json={"prompt": "abc", "max_tokens": 30, "n": 2, "request_id": "same"},
            headers={"x-request-id": "same"},
            timeout=30,
        )
        return answer.status_code, answer.headers["x-request-id"], answer.json()["id"]

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, range(8)))
    assert {(status, echoed) for status, echoed, _ in answers} == {(200, "same")}
    assert len({answer_id for _, _, answer_id in answers}) == 8


def cached(base: str, **headers: str) -> int:
    answer = httpx.post(
        f"{base}{TEXT}", json={"prompt": "z" * 40, "max_tokens": 1}, headers=headers, timeout=30
    )
    count: int = answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"]
    return count


@pytest.mark.behaviour(
    "callers of different tenants or keys share no cached prefix",
    report="vllm #30931, #42125: another's blocks were taken for one's own",
)
def test_tenants_and_keys_share_no_prefix(http: httpx.Client) -> None:
    with engine_server("--trust-tenant-header=on") as running:
        for tenant in ("a", "b"):
            assert cached(running.api, **{"x-paceline-tenant": tenant}) == 0
            assert cached(running.api, **{"x-paceline-tenant": tenant}) == 32
        assert cached(running.api, **{"x-paceline-tenant": "a", "authorization": "Bearer k"}) == 0
    base = str(http.base_url)
    assert cached(base, **{"x-paceline-tenant": "a"}) == 0
    assert cached(base, **{"x-paceline-tenant": "b"}) == 32  # untrusted: all are one


@pytest.mark.parametrize(
    ("headers", "param"),
    [({"x-paceline-deadline-ms": "soon"}, "x-paceline-deadline-ms")],
)
def test_malformed_headers(http: httpx.Client, headers: dict[str, str], param: str) -> None:
    answer = http.post(TEXT, json={"prompt": "x"}, headers={**headers, "x-request-id": "r1"})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param
    assert answer.headers["x-request-id"] == "r1"
