"""Refusals of a started server that has too much to do: why, and when to come again."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from paceline_engine.sizes import SIMULATED_KV_BYTES_PER_TOKEN
from tests.support.engine_server import EngineServer, engine_server, eventually

WAIT_S = 60


def post(server: EngineServer, **body: Any) -> httpx.Response:
    return httpx.post(server.api + "/v1/completions", json=body, timeout=WAIT_S)


@contextlib.contextmanager
def in_background(server: EngineServer, count: int, **body: Any) -> Iterator[None]:
    """So many calls, begun and not waited for before the end."""
    threads = [
        threading.Thread(target=post, args=(server,), kwargs=body, daemon=True)
        for _ in range(count)
    ]
    for each in threads:
        each.start()
    try:
        yield
    finally:
        for each in threads:
            each.join(WAIT_S)


@pytest.mark.slow
@pytest.mark.behaviour(
    "A call that is refused with 429 fits once its Retry-After has passed",
    report="vLLM, SGLang: a full queue answers 503 and does not say when to come again",
)
def test_retry_after_holds() -> None:
    """One request runs at a time and takes half a second; five may wait."""
    flags = ("--max-queued-requests=5", "--initial-running-seqs=1", "--max-num-seqs=1")
    with engine_server(*flags, law="base_ms=100,per_token_ms=0") as server:
        assert post(server, prompt=["a"] * 4, max_tokens=5).status_code == 200  # to measure by
        with in_background(server, 6, prompt="b", max_tokens=5):
            eventually(lambda: server.value("requests_waiting") >= 4, within_s=20)
            answer = post(server, prompt="c", n=4, max_tokens=1)
            assert answer.status_code == 429
            assert answer.json()["error"]["code"] == "queued_requests"
            told_s = int(answer.headers["retry-after"])
            assert 1 <= told_s <= 10  # three must leave, at two a second or so
            time.sleep(told_s)
            again = post(server, prompt="c", n=4, max_tokens=1)
            if again.status_code == 429:  # the estimate is one of whole seconds
                time.sleep(int(again.headers["retry-after"]))
                again = post(server, prompt="c", n=4, max_tokens=1)
            assert again.status_code == 200


@pytest.mark.behaviour(
    "A request is refused with 429 before KV runs out, not preempted over and over after",
    report="own risk: more admitted than the KV cache could ever carry",
)
def test_projected_kv_is_refused_before_memory_runs_out() -> None:
    flags = (
        "--max-projected-kv=1",
        "--max-model-len=160",
        f"--kv-cache-memory={320 * SIMULATED_KV_BYTES_PER_TOKEN}",
    )
    with (
        engine_server(*flags, law="base_ms=60,per_token_ms=0") as server,
        in_background(server, 2, prompt="a" * 40, max_tokens=100),
    ):
        eventually(lambda: server.value("requests_running") == 2, within_s=20)
        refused = post(server, prompt="a" * 40, max_tokens=60)
        assert refused.status_code == 429
        error = refused.json()["error"]
        assert error["code"] == "projected_kv"
        assert "280 tokens of KV cache and the limit is 320" in error["message"]
        assert server.value("rejected_total", reason="projected_kv") == 1
        assert post(server, prompt="a" * 20, max_tokens=20).status_code == 200
        assert server.value("preemptions_total") == 0


def test_a_wait_that_would_be_too_long_is_not_begun() -> None:
    flags = ("--max-queue-seconds=0.5", "--max-num-seqs=1", "--initial-running-seqs=1")
    with engine_server(*flags, law="base_ms=100,per_token_ms=0") as server:
        assert post(server, prompt=["a" * 10] * 4, max_tokens=6).status_code == 200
        with in_background(server, 1, prompt=["b" * 10] * 8, max_tokens=6):
            eventually(lambda: server.value("requests_waiting") >= 4, within_s=20)
            refused = post(server, prompt="c", max_tokens=1)
            assert refused.status_code == 429
            assert refused.json()["error"]["code"] == "queue_delay"
            assert int(refused.headers["retry-after"]) >= 1
