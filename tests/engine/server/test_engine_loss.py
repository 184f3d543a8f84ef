"""An engine that is killed or hangs while clients wait: all are told, and so are probes."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import pytest

from tests.support.engine_server import EngineServer, engine_server, eventually

LAW = "base_ms=100,per_token_ms=0"
SEATS = 3
CLIENTS = 9


def ask(server: EngineServer, *, stream: bool, max_tokens: int = 2000) -> httpx.Response:
    body = {"prompt": "x", "max_tokens": max_tokens, "stream": stream}
    return httpx.post(f"{server.api}/v1/completions", json=body, timeout=120)


def health(server: EngineServer, path: str) -> int:
    """Status; 0 where nobody answers."""
    try:
        return httpx.get(f"{server.health}{path}", timeout=5).status_code
    except httpx.TransportError:
        return 0


@pytest.mark.slow
@pytest.mark.behaviour(
    "an engine killed with -9 fails liveness within 10 s, and every client gets an error: those "
    "in a stream, those who wait for a whole answer, and those in the queue",
    report="own risk: clients in the queue of a dead engine wait without end",
)
def test_all_clients_of_a_killed_engine_get_an_error() -> None:
    with (
        engine_server(f"--max-num-seqs={SEATS}", law=LAW) as running,
        ThreadPoolExecutor(CLIENTS) as clients,
    ):
        answers = [clients.submit(ask, running, stream=False) for _ in range(SEATS - 1)]
        eventually(lambda: running.value("requests_running") == SEATS - 1)
        answers += [clients.submit(ask, running, stream=True)]
        eventually(lambda: running.value("time_to_first_token_seconds_count") >= SEATS)
        waiting = CLIENTS - SEATS
        answers += [
            clients.submit(ask, running, stream=number % 2 == 0) for number in range(waiting)
        ]
        eventually(lambda: running.value("requests_waiting") == waiting)
        os.kill(running.engine_pid(), signal.SIGKILL)
        killed_at = time.monotonic()
        eventually(lambda: health(running, "/healthz") != 200, within_s=10)
        replies = [answer.result(timeout=10) for answer in answers]
        assert time.monotonic() - killed_at < 10
        assert health(running, "/readyz") != 200
        assert running.wait() == 1
    began = replies.pop(SEATS - 1)
    assert began.status_code == 200
    assert '"error"' in began.text.strip().splitlines()[-1]
    assert [reply.status_code for reply in replies] == [503] * (CLIENTS - 1)
    assert all("signal 9" in reply.json()["error"]["message"] for reply in replies)


@contextmanager
def stopped(server: EngineServer) -> Iterator[None]:
    """The engine hangs meanwhile."""
    os.kill(server.engine_pid(), signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.engine_pid(), signal.SIGCONT)


def becomes(server: EngineServer, path: str, status: int, within_s: float) -> float:
    """Seconds until a probe is answered so."""
    began = time.monotonic()
    eventually(lambda: health(server, path) == status, within_s)
    return time.monotonic() - began


@pytest.mark.slow
@pytest.mark.behaviour(
    "an engine that hangs at work is unready after about 5 s and fails liveness after 10 s, "
    "whatever small steps it has run so far; once it goes on, its clients get whole answers",
    report="own finding: an engine that hung at work kept a healthy face for two minutes",
)
def test_a_hung_engine_at_work_is_noticed() -> None:
    with engine_server(law=LAW) as running, ThreadPoolExecutor(2) as clients:
        answers: list[Future[httpx.Response]] = [
            clients.submit(ask, running, stream=stream, max_tokens=20) for stream in (True, False)
        ]
        eventually(lambda: running.value("requests_running") == 2)
        with stopped(running):
            assert health(running, "/readyz") == 200
            unready_s = becomes(running, "/readyz", 503, within_s=9)
            assert health(running, "/healthz") == 200
            becomes(running, "/healthz", 503, within_s=14 - unready_s)
            for path in ("/healthz", "/readyz"):
                assert "heartbeat" in httpx.get(running.health + path).text
        for path in ("/healthz", "/readyz"):
            becomes(running, path, 200, within_s=10)
        stream, whole = (answer.result(timeout=60) for answer in answers)
        assert stream.text.endswith("data: [DONE]\n\n")
        assert whole.json()["usage"]["completion_tokens"] == 20
