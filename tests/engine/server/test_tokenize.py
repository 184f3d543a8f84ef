from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request
from starlette.types import ASGIApp

from paceline_engine.server.error_routes import bare_app
from paceline_engine.server.tokenize_routes import TokenizeRoutes
from paceline_engine.server.tokenize_wire import LEAST_LIMIT_TOKENS
from paceline_engine.server.validation import parse_body
from paceline_engine.tokenizer import Tokenizer
from paceline_engine.tokenizer.byte_vocabulary import TURN_END_ID, TURN_START_ID, VOCAB_SIZE
from paceline_engine.tokenizer.vocabulary import Vocabulary
from tests.engine.server.conftest import MODEL

WITHIN_S = 60


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


class _Port:
    """An entry whose tokenizer counts how many use it at a time, and must not see too much."""

    context, model_name = 100, MODEL

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.service = SimpleNamespace(tokenizer=tokenizer)

    def check_key(self, request: Request) -> None:
        """Anyone may."""

    @asynccontextmanager
    async def body(self, model: Any, request: Request) -> AsyncIterator[Any]:
        yield parse_body(model, await request.body(), self.context)


def routes_app(
    encode: Callable[[str], list[int]], decode: Callable[..., str] | None = None
) -> FastAPI:
    table = tuple(bytes([byte]) * 4 for byte in range(256))
    vocabulary = Vocabulary(token_bytes=table, specials=(), eos_token_ids=())
    tokenizer = Tokenizer(vocabulary, encode)
    if decode is not None:
        tokenizer.decode = decode  # type: ignore[method-assign]
    port: Any = _Port(tokenizer)
    app, routes = bare_app("test"), TokenizeRoutes(port)
    for route in (routes.tokenize, routes.detokenize):
        app.add_api_route(f"/{route.__name__}", route, methods=["POST"], response_model=None)
    return app


def routes_of(encode: Callable[[str], list[int]]) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(routes_app(encode))
    return httpx.AsyncClient(transport=transport, base_url="http://test")


@pytest.mark.behaviour(
    "What has more tokens than one call may ask about is refused before it is encoded",
    report="own risk: /tokenize takes no place in any queue, and was limited by its body alone",
)
async def test_no_text_without_limit() -> None:
    def encode(_text: str) -> list[int]:
        raise AssertionError("encoded")

    text = "x" * (4 * LEAST_LIMIT_TOKENS + 1)
    hello = {"role": "user", "content": "hello"}
    async with routes_of(encode) as client:
        for path, body, param in (
            ("/tokenize", {"prompt": text}, "prompt"),
            ("/tokenize", {"messages": [{**hello, "content": text}]}, "messages"),
            ("/tokenize", {"messages": [{**hello, "reasoning_content": text}]}, "messages"),
            (
                "/tokenize",
                {"messages": [hello], "chat_template_kwargs": {"a": [[text]]}},
                "messages",
            ),
            ("/detokenize", {"tokens": [0] * (LEAST_LIMIT_TOKENS + 1)}, "tokens"),
        ):
            answer = await client.post(path, json=body)
            assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)
            assert answer.json()["error"]["code"] == "context_length_exceeded"


async def test_two_long_texts_at_a_time() -> None:
    """The third waits until one is done; a short one passes it."""
    running, seen, both = set[int](), list[int](), threading.Barrier(2)

    def encode(text: str) -> list[int]:
        if len(text) < 100:
            return [0]
        running.add(threading.get_ident())
        seen.append(len(running))
        both.wait(WITHIN_S)  # two at least
        running.discard(threading.get_ident())
        return [0]

    async with routes_of(encode) as client, asyncio.timeout(WITHIN_S):
        long = [client.post("/tokenize", json={"prompt": "x" * 10_000}) for _ in range(6)]
        short = client.post("/tokenize", json={"prompt": "x"})
        answers = await asyncio.gather(*long, short)
    assert all(answer.json()["count"] == 1 for answer in answers)
    assert max(seen) == 2


class _Caller:
    """An ASGI client that can leave."""

    def __init__(self, app: ASGIApp, path: str, body: object) -> None:
        self._app, self._path = app, path
        self._messages = asyncio.Queue[Any]()
        raw = json.dumps(body).encode()
        self._messages.put_nowait({"type": "http.request", "body": raw, "more_body": False})

    def leave(self) -> None:
        self._messages.put_nowait({"type": "http.disconnect"})

    async def run(self) -> None:
        scope = {"type": "http", "method": "POST", "path": self._path, "headers": [],
                 "query_string": b"", "state": {}}  # fmt: skip
        await self._app(scope, self._messages.get, self._ignore)

    async def _ignore(self, _message: Any) -> None:
        """Nobody reads."""


LONG = {
    "/tokenize": lambda mark: {"prompt": mark * 10_000},
    "/detokenize": lambda mark: {"tokens": [ord(mark)] * 10_000},
}


@pytest.mark.behaviour(
    "a call to /tokenize or /detokenize whose client leaves gives its place back, waiting or not",
    report="llama.cpp #24496, #11720: queued requests of gone clients still ran",
)
@pytest.mark.parametrize("path", LONG)
async def test_whoever_leaves_gives_its_place_back(path: str) -> None:
    worked, may_end = list[str](), threading.Event()

    def hold(mark: str) -> None:
        worked.append(mark)
        assert may_end.wait(WITHIN_S)

    def encode(text: str) -> list[int]:
        hold(text[0])
        return [0]

    def decode(ids: Sequence[int], **_: Any) -> str:
        hold(chr(ids[0]))
        return ""

    app = routes_app(encode, decode)
    callers = [_Caller(app, path, LONG[path](mark)) for mark in "abcd"]
    tasks = [asyncio.create_task(each.run()) for each in callers]
    async with asyncio.timeout(WITHIN_S):
        while len(worked) < 2:  # noqa: ASYNC110 threads tell of no event
            await asyncio.sleep(0.01)
        callers[2].leave()  # waits
        await tasks[2]
        callers[0].leave()  # is worked on, and nothing can stop its thread
        may_end.set()
        await asyncio.gather(*tasks)
    assert sorted(worked) == ["a", "b", "d"]
