from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from paceline_engine.tokenizer.byte_vocabulary import TURN_END_ID, TURN_START_ID, VOCAB_SIZE
from tests.engine.server.conftest import MODEL


@pytest.mark.parametrize(
    ("body", "tokens"),
    [
        ({"prompt": "hé"}, list("hé".encode())),
        ({"prompt": ""}, []),
        ({"prompt": "a<|im_end|>", "model": MODEL}, [97, TURN_END_ID]),
        (
            {"messages": [{"role": "user", "content": "a"}], "add_generation_prompt": False},
            [TURN_START_ID, *b"user\na", TURN_END_ID, 10],
        ),
    ],
)
def test_tokenize(http: httpx.Client, body: dict[str, Any], tokens: list[int]) -> None:
    answer = http.post("/tokenize", json=body)
    assert answer.json() == {
        "count": len(tokens),
        "max_model_len": 512,
        "tokens": tokens,
        "token_strs": None,
    }


def test_token_texts(http: httpx.Client) -> None:
    answer = http.post("/tokenize", json={"prompt": "é<|im_end|>", "return_token_strs": True})
    assert answer.json()["token_strs"] == ["\ufffd", "\ufffd", "<|im_end|>"]


def test_there_and_back(http: httpx.Client) -> None:
    text = "Once <|im_start|> upon\n" * 500 + "€"
    tokens = http.post("/tokenize", json={"prompt": text}).json()["tokens"]
    assert http.post("/detokenize", json={"tokens": tokens}).json() == {"prompt": text}
    assert http.post("/detokenize", json={"tokens": []}).json() == {"prompt": ""}


@pytest.mark.parametrize(
    ("path", "body", "status", "param"),
    [
        ("/tokenize", {}, 400, "prompt"),
        ("/tokenize", {"prompt": "a", "messages": [{"role": "user"}]}, 400, "prompt"),
        ("/tokenize", {"prompt": ["a"]}, 400, "prompt"),
        ("/tokenize", {"messages": []}, 400, "messages"),
        (
            "/tokenize",
            {"messages": [{"role": "user"}], "add_special_tokens": True},
            400,
            "add_special_tokens",
        ),
        ("/tokenize", {"prompt": "a", "model": "other"}, 404, "model"),
        ("/detokenize", {"tokens": [VOCAB_SIZE]}, 400, "tokens"),
        ("/detokenize", {"tokens": [-1]}, 400, "tokens"),
        ("/detokenize", {"tokens": ["a"]}, 400, "tokens"),
        ("/detokenize", {}, 400, "tokens"),
    ],
)
def test_refused(
    http: httpx.Client, path: str, body: dict[str, Any], status: int, param: str
) -> None:
    answer = http.post(path, json=body)
    assert answer.status_code == status
    assert answer.json()["error"]["param"] == param


@pytest.mark.behaviour(
    "any number of calls may tokenise at a time, long texts in threads",
    report="vllm #40949, transformers #47085: a shared tokenizer raised 'Already borrowed'",
)
def test_many_at_a_time(http: httpx.Client) -> None:
    def count(size: int) -> bool:
        body = {"prompt": "ab " * size}
        answer = httpx.post(f"{http.base_url}/tokenize", json=body, timeout=30)
        return bool(answer.json()["count"] == 3 * size)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(count, [5000, 10] * 8))


def test_the_model_card(http: httpx.Client) -> None:
    card = http.get("/v1/models").json()["data"][0]
    assert card == http.get(f"/v1/models/{MODEL}").json()
    assert {name: card[name] for name in ("id", "object", "root", "parent", "max_model_len")} == {
        "id": MODEL,
        "object": "model",
        "root": MODEL,
        "parent": None,
        "max_model_len": 512,
    }
    assert card["permission"][0]["allow_sampling"] is True
