"""The prefix cache of a started server: hits, whose they are, and how they are cleared."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator

import httpx
import pytest

from tests.support.engine_server import EngineServer, engine_server

PATH = "/admin/cache"
TENANT = "x-paceline-tenant"
PROMPT = "What is the capital of the country north of here? " * 2  # 100 tokens of the bytes
CACHED = 96  # six full blocks of 16
ADMIN = {"authorization": "Bearer secret"}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineServer]:
    folder = tmp_path_factory.mktemp("tokens")
    (folder / "admin").write_text("secret\n")
    (folder / "keys").write_text("one\ntwo\n")
    with engine_server(
        f"--admin-token-file={folder / 'admin'}",
        f"--api-key-file={folder / 'keys'}",
        "--trust-tenant-header=on",
        "--max-model-len=512",
        law="base_ms=5,per_token_ms=0.01",
    ) as running:
        yield running


@pytest.fixture(autouse=True)
def empty(engine: EngineServer) -> None:
    clear(engine)


def ask(
    engine: EngineServer, *, tenant: str = "", key: str = "one", salt: str | None = None
) -> int:
    """Prompt tokens that came from the cache, as the answer says."""
    body: dict[str, object] = {"prompt": PROMPT, "max_tokens": 1}
    if salt is not None:
        body["cache_salt"] = salt
    headers = {"authorization": f"Bearer {key}"} | ({TENANT: tenant} if tenant else {})
    answer = httpx.post(f"{engine.api}/v1/completions", json=body, headers=headers, timeout=30)
    assert answer.status_code == 200, answer.text
    cached: int = answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"]
    return cached


def clear(engine: EngineServer, query: str = "") -> dict[str, int]:
    answer = httpx.delete(f"{engine.admin}{PATH}{query}", headers=ADMIN, timeout=30)
    assert answer.status_code == 200, answer.text
    counts: dict[str, int] = answer.json()
    return counts


def test_the_same_prompt_again_is_counted_in_tokens(engine: EngineServer) -> None:
    names = ("prefix_cache_queries_tokens_total", "prefix_cache_hits_tokens_total")
    before = [engine.value(name) for name in names]
    assert (ask(engine), ask(engine)) == (0, CACHED)
    after = [engine.value(name) for name in names]
    assert [b - a for a, b in zip(before, after, strict=True)] == [2 * len(PROMPT), CACHED]
    assert engine.value("kv_cache_blocks", state="cached") == CACHED / 16


@pytest.mark.behaviour(
    "tenants, API keys and cache salts each have a cache of their own, without being asked",
    report="vllm #30931, #42125, #3264: KV was shared by a name that meant two things",
)
def test_tenants_keys_and_salts_share_nothing(engine: EngineServer) -> None:
    assert ask(engine, tenant="a") == 0
    assert ask(engine, tenant="b") == 0
    assert ask(engine, tenant="a", key="two") == 0
    assert ask(engine, tenant="a", salt="s") == 0
    assert ask(engine, tenant="a") == CACHED
    assert ask(engine, tenant="a", salt="s") == CACHED


def test_everything_is_cleared_and_counted(engine: EngineServer) -> None:
    ask(engine)
    assert clear(engine) == {"blocks": 6, "tokens": CACHED, "held": 0}
    assert clear(engine) == {"blocks": 0, "tokens": 0, "held": 0}
    assert ask(engine) == 0


@pytest.mark.parametrize(
    ("query", "left"),
    [
        ("?tenant=a", {"b": 96, "c": 96}),
        ("?tenant=a&salt=s", {"a": 96, "b": 96, "c": 96}),
        ("?salt=s", {"a": 96, "b": 96}),
        ("?tenant=", {"a": 96, "b": 96, "c": 96}),
        ("?older_than=3600", {"a": 96, "b": 96, "c": 96}),
        ("?older_than=0", {}),
        (f"?scope={hashlib.sha256(b'two').hexdigest()[:16]}", {"a": 96, "c": 96}),
    ],
)
def test_what_matches_every_parameter_is_cleared(
    engine: EngineServer, query: str, left: dict[str, int]
) -> None:
    def ask_all() -> dict[str, int]:
        return {
            "a": ask(engine, tenant="a"),
            "b": ask(engine, tenant="b", key="two"),
            "c": ask(engine, tenant="c", salt="s"),
        }

    ask_all()
    assert clear(engine, query)["blocks"] == 6 * (3 - len(left))
    assert ask_all() == {"a": 0, "b": 0, "c": 0} | left


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("?older_than=soon", "older_than"),
        ("?older_than=-1", "older_than"),
        ("?tenant=a&tenant=b", "tenant"),
        ("?tenants=a", None),
        ("?tenant", None),
    ],
)
def test_a_mistake_clears_nothing(engine: EngineServer, query: str, param: str | None) -> None:
    ask(engine)
    answer = httpx.delete(engine.admin + PATH + query, headers=ADMIN)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param
    assert ask(engine) == CACHED


@pytest.mark.parametrize("header", ["", "Bearer wrong"])
def test_nobody_clears_without_the_token(engine: EngineServer, header: str) -> None:
    ask(engine)
    answer = httpx.delete(engine.admin + PATH, headers={"authorization": header})
    assert answer.status_code == 401
    assert ask(engine) == CACHED


def test_other_methods_are_refused(engine: EngineServer) -> None:
    assert httpx.get(engine.admin + PATH, headers=ADMIN).status_code == 405


def test_a_running_request_keeps_its_blocks_and_they_are_freed_after_it(
    engine: EngineServer,
) -> None:
    body = {"prompt": PROMPT, "max_tokens": 400, "stream": True}
    headers = {"authorization": "Bearer one"}
    url = f"{engine.api}/v1/completions"
    with httpx.stream("POST", url, json=body, headers=headers, timeout=30) as answer:
        lines = answer.iter_lines()
        next(lines)
        cleared = clear(engine)
        assert cleared["blocks"] == 0
        assert cleared["held"] >= 6
        assert ask(engine) == 0, "nobody finds what was cleared"
        assert any("[DONE]" in line for line in lines)
    assert engine.value("kv_cache_blocks", state="held") == 0


def test_without_a_prefix_cache_nothing_is_kept() -> None:
    with engine_server("--prefix-caching=off") as running:
        assert [ask(running) for _ in range(2)] == [0, 0]
        assert running.value("prefix_cache_queries_tokens_total") == 0
        assert httpx.delete(running.admin + PATH).json()["blocks"] == 0


def test_a_loading_engine_puts_it_off() -> None:
    with engine_server("--load-seconds=30", ready=False) as running:
        answer = httpx.delete(running.admin + PATH)
        assert answer.status_code == 503
        assert answer.headers["retry-after"]


def test_a_retention_time_ends_a_blocks_life() -> None:
    with engine_server("--prefix-cache-retention-seconds=0.2") as running:
        assert ask(running) == 0
        time.sleep(0.3)
        assert ask(running) == 0
