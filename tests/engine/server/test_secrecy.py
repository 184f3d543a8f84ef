"""Nothing of a prompt is in logs, metrics, request records or errors, whatever goes wrong."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.engine_server import EngineServer, engine_server, eventually

MARK = "Xyzzy-Plugh"
SALT = "Salt-Quux"
KEY = "Key-Frobozz"
IDS = [201, 17, 133, 94, 8]  # a prompt of token ids, and how logs would show it
SECRETS = (MARK, SALT, KEY, str(IDS).strip("[]"), ",".join(map(str, IDS)))
LONG = MARK * 400


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("secrecy")
    (path / "keys").write_text(f"{KEY}\n")
    return path


@pytest.fixture(scope="module")
def engine(folder: Path) -> Iterator[EngineServer]:
    with engine_server(
        f"--api-key-file={folder / 'keys'}",
        f"--request-log={folder / 'requests.jsonl'}",
        "--log-level=debug",
        "--trust-tenant-header=on",
        "--max-model-len=512",
        "--max-queued-requests=4",
        law="base_ms=5,per_token_ms=0.01",
    ) as running:
        yield running


@pytest.fixture(scope="module")
def http(engine: EngineServer) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {KEY}"}
    with httpx.Client(base_url=engine.api, headers=headers, timeout=60) as client:
        yield client


SERVED: dict[str, tuple[str, dict[str, Any]]] = {
    "text": ("completions", {"prompt": MARK}),
    "token ids": ("completions", {"prompt": IDS * 8}),
    "salt": ("completions", {"prompt": MARK, "cache_salt": SALT}),
    "several": ("completions", {"prompt": [MARK, MARK * 2], "n": 2}),
    "prompt logprobs": ("completions", {"prompt": MARK, "prompt_logprobs": 2, "echo": True}),
    "stop": ("completions", {"prompt": MARK, "stop": [MARK]}),
    "chat": ("chat/completions", {"messages": [{"role": "user", "content": MARK}]}),
    "user": ("completions", {"prompt": MARK, "user": MARK, "metadata": {MARK: MARK}}),
}
REFUSED: dict[str, tuple[str, dict[str, Any]]] = {
    "too long": ("completions", {"prompt": LONG}),
    "too long a chat": ("chat/completions", {"messages": [{"role": "user", "content": LONG}]}),
    "an object for a text": ("completions", {"prompt": {MARK: MARK}}),
    "a list of both": ("completions", {"prompt": [MARK, 3]}),
    "ids too large": ("completions", {"prompt": [*IDS, 2**40]}),
    "a message without a role": ("chat/completions", {"messages": [{"content": MARK}]}),
    "a role unknown": ("chat/completions", {"messages": [{"role": MARK, "content": MARK}]}),
    "content of another kind": (
        "chat/completions",
        {"messages": [{"role": "user", "content": [{"type": MARK, MARK: MARK}]}]},
    ),
    "temperature as text": ("completions", {"prompt": MARK, "temperature": MARK}),
    "top_p too large": ("completions", {"prompt": MARK, "top_p": 7}),
    "a salt of another kind": ("completions", {"prompt": MARK, "cache_salt": [SALT]}),
    "a stop of another kind": ("completions", {"prompt": MARK, "stop": {MARK: 1}}),
    "bias for a text": ("completions", {"prompt": MARK, "logit_bias": {MARK: 1}}),
    "another model": ("completions", {"prompt": MARK, "model": "none"}),
    "an empty prompt": ("completions", {"prompt": "", "suffix": MARK}),
    "tools of another kind": (
        "chat/completions",
        {"messages": [{"role": "user", "content": MARK}], "tools": MARK},
    ),
}


def post(http: httpx.Client, route: str, body: dict[str, Any]) -> httpx.Response:
    return http.post(f"/v1/{route}", json={"max_tokens": 4, **body})


def broken_json(http: httpx.Client) -> httpx.Response:
    return http.post("/v1/completions", content=f'{{"prompt": "{MARK}", "max_tokens": ')


def wrong_key(http: httpx.Client) -> httpx.Response:
    headers = {"authorization": f"Bearer {KEY}x"}
    return http.post("/v1/completions", json={"prompt": MARK}, headers=headers)


def no_text(http: httpx.Client) -> httpx.Response:
    return http.post("/v1/completions", content=MARK.encode() + b"\xff")


def found(text: str) -> list[str]:
    return [secret for secret in SECRETS if secret in text]


def check_nothing_is_told(engine: EngineServer, http: httpx.Client, folder: Path) -> None:
    """Everything the engine ever wrote or shows on its other ports."""
    records = (folder / "requests.jsonl").read_text()
    pages = []
    for port, paths in (
        (engine.health, ("/metrics", "/healthz", "/readyz")),
        (engine.admin, ("/admin/tunables", "/admin/drain", "/admin/memory")),
    ):
        pages += [http.get(port + path).text for path in paths]
    for place in (*engine.log, *pages, *records.splitlines()):
        assert found(place) == [], place


@pytest.mark.behaviour(
    "nothing of a prompt, salt or key is in logs, metrics or request records, at any log level",
    report="engines that log prompts with their parameters",
)
@pytest.mark.parametrize(("route", "body"), SERVED.values(), ids=SERVED.keys())
def test_what_is_served_leaves_no_trace(
    engine: EngineServer, http: httpx.Client, folder: Path, route: str, body: dict[str, Any]
) -> None:
    answer = post(http, route, body)
    assert answer.status_code == 200, answer.text
    check_nothing_is_told(engine, http, folder)


@pytest.mark.behaviour(
    "no error repeats what it is about: neither prompt nor salt nor key",
    report="validation errors that hand the whole request back",
)
@pytest.mark.parametrize(("route", "body"), REFUSED.values(), ids=REFUSED.keys())
def test_no_refusal_repeats_the_prompt(
    engine: EngineServer, http: httpx.Client, folder: Path, route: str, body: dict[str, Any]
) -> None:
    answer = post(http, route, body)
    assert 400 <= answer.status_code < 500, answer.text
    assert found(answer.text) == []
    check_nothing_is_told(engine, http, folder)


@pytest.mark.parametrize("send", [broken_json, wrong_key, no_text])
def test_nor_does_one_of_something_that_is_no_request(
    engine: EngineServer,
    http: httpx.Client,
    folder: Path,
    send: Callable[[httpx.Client], httpx.Response],
) -> None:
    answer = send(http)
    assert answer.status_code in (400, 401)
    assert found(answer.text) == []
    check_nothing_is_told(engine, http, folder)


def test_the_admin_port_repeats_no_salt(
    engine: EngineServer, http: httpx.Client, folder: Path
) -> None:
    for query in (f"?salt={SALT}&salt={SALT}", f"?{SALT}=1", f"?salt={SALT}&older_than={SALT}"):
        answer = http.delete(f"{engine.admin}/admin/cache{query}")
        assert answer.status_code == 400
        assert found(answer.text) == []
    assert http.delete(f"{engine.admin}/admin/cache?salt={SALT}").status_code == 200
    check_nothing_is_told(engine, http, folder)


def test_a_caller_that_goes_away_leaves_no_trace(
    engine: EngineServer, http: httpx.Client, folder: Path
) -> None:
    body = {"prompt": MARK, "max_tokens": 400, "stream": True}
    with http.stream("POST", "/v1/completions", json=body) as answer:
        next(answer.iter_lines())
    eventually(lambda: engine.value("requests_total", outcome="abort") >= 1, within_s=30)
    check_nothing_is_told(engine, http, folder)


def test_the_request_log_knows_the_requests_but_not_what_they_say(
    engine: EngineServer, http: httpx.Client, folder: Path
) -> None:
    answer = http.post("/v1/completions", json={"prompt": MARK}, headers={"x-request-id": "mine"})
    assert answer.status_code == 200

    def is_logged() -> bool:
        lines = (folder / "requests.jsonl").read_text().splitlines()
        return any(json.loads(line)["request_id"] == "mine" for line in lines)

    eventually(is_logged, within_s=30)
    check_nothing_is_told(engine, http, folder)


def test_an_engine_that_dies_says_nothing_of_what_it_ran() -> None:
    with engine_server("--log-level=debug", law="base_ms=50,per_token_ms=0") as running:
        body = {"prompt": MARK, "max_tokens": 400, "stream": True, "cache_salt": SALT}
        url = f"{running.api}/v1/completions"
        with httpx.stream("POST", url, json=body, timeout=60) as answer:
            lines = answer.iter_lines()
            next(lines)
            os.kill(running.engine_pid(), signal.SIGKILL)
            with contextlib.suppress(httpx.HTTPError):
                assert found("\n".join(lines)) == []
        running.wait_for("killed by signal", timeout_s=30)
        assert found("\n".join(running.log)) == []
