"""Drain, disconnects and deaths of a really started server, with clients in flight."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from collections.abc import Iterator
from http.client import HTTPResponse
from queue import Queue
from urllib.parse import urlsplit

import httpx
import pytest

from tests.support.engine_server import EngineServer, engine_server, eventually

SLOW_LAW = "base_ms=30,per_token_ms=0"
TEXT = "/v1/completions"
LONG = {"prompt": "x", "max_tokens": 2000, "stream": True}
# Eight million bytes: more than the system keeps for a client that does not read.
LARGE = {"prompt": "x" * 1000, "max_tokens": 1, "n": 16, "echo": True, "logprobs": 20}


class Streaming(threading.Thread):
    """A client that reads one stream in the background."""

    def __init__(self, url: str, max_tokens: int) -> None:
        super().__init__()
        self._url = url
        self._body = {**LONG, "max_tokens": max_tokens}
        self.began: Queue[int] = Queue()
        self.lines: list[str] = []
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            with httpx.stream("POST", self._url + TEXT, json=self._body, timeout=120) as answer:
                self.began.put(answer.status_code)
                self.lines = [line for line in answer.iter_lines() if line]
        except httpx.HTTPError as error:
            self.error = error


class SlowReader:
    """A client that asks for a large answer and leaves it unread."""

    def __init__(self, url: str) -> None:
        place = urlsplit(url)
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        self._socket.connect((place.hostname or "", place.port or 0))
        self._socket.settimeout(60)
        body = json.dumps(LARGE).encode()
        self._socket.sendall(b"POST %b HTTP/1.1\r\nhost: x\r\n" % TEXT.encode())
        self._socket.sendall(b"content-length: %d\r\n\r\n%b" % (len(body), body))
        self._file = self._socket.makefile("rb")

    def head(self) -> int:
        """Waits for the headers; returns the answer's length."""
        lines = [line.lower() for line in iter(self._file.readline, b"\r\n")]
        assert lines[0].split()[1] == b"200"
        return next(int(line.split()[1]) for line in lines if line.startswith(b"content-length"))

    def rest(self) -> bytes:
        """Reads the answer to the end of the connection."""
        with self._socket, self._file:
            return self._file.read()


@pytest.fixture(scope="module")
def slow() -> Iterator[EngineServer]:
    with engine_server(law=SLOW_LAW) as running:
        yield running


def is_idle(server: EngineServer) -> bool:
    return server.value("requests_running") == 0 == server.value("requests_waiting")


def test_a_stream_that_its_client_leaves_is_freed(slow: EngineServer) -> None:
    aborted = slow.value("requests_total", outcome="abort")
    with httpx.stream("POST", slow.api + TEXT, json=LONG) as answer:
        lines = answer.iter_lines()  # kept: its end would close the connection
        next(lines)
        assert slow.value("requests_running") == 1
    eventually(lambda: is_idle(slow))
    assert slow.value("kv_cache_blocks", state="held") == 0
    assert slow.value("requests_total", outcome="abort") == aborted + 1


@pytest.mark.parametrize("prompts", ["x", ["x", "y", "z"]])
def test_a_whole_answer_that_its_client_leaves_is_freed(
    slow: EngineServer, prompts: str | list[str]
) -> None:
    count = 1 if isinstance(prompts, str) else len(prompts)
    aborted = slow.value("requests_total", outcome="abort")
    body = {"prompt": prompts, "max_tokens": 2000}
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(slow.api + TEXT, json=body, timeout=0.3)
    eventually(lambda: slow.value("requests_total", outcome="abort") == aborted + count)
    eventually(lambda: is_idle(slow))


def test_admin_drain_and_its_undoing() -> None:
    with engine_server("--drain-grace-seconds=4", law=SLOW_LAW) as running:
        drain, ready = running.admin + "/admin/drain", running.health + "/readyz"
        stream = Streaming(running.api, max_tokens=250)
        stream.start()
        assert stream.began.get(timeout=60) == 200
        state = httpx.post(drain).json()
        assert state == {
            "phase": "announced",
            "runningRequests": 1,
            "empty": False,
            "terminal": False,
        }
        assert httpx.get(ready).status_code == 503
        accepted = httpx.post(running.api + TEXT, json={"prompt": "x", "max_tokens": 1})
        assert (accepted.status_code, accepted.headers["connection"]) == (200, "close")

        eventually(lambda: httpx.get(drain).json()["phase"] == "refusing")
        refused = httpx.post(running.api + TEXT, json={"prompt": "x"})
        assert refused.status_code == 503
        assert int(refused.headers["retry-after"]) >= 1
        assert refused.headers["connection"] == "close"
        assert running.value("rejected_total", reason="draining") == 1
        assert running.value("requests_received_total") == 2  # the refused one counts elsewhere

        stream.join(120)
        assert stream.lines[-1] == "data: [DONE]"
        eventually(lambda: bool(httpx.get(drain).json()["empty"]))
        assert httpx.get(running.health + "/healthz").status_code == 200
        assert httpx.get(drain).json()["terminal"] is False
        assert httpx.delete(drain).json()["phase"] == "none"
        assert httpx.get(ready).status_code == 200
        again = httpx.post(running.api + TEXT, json={"prompt": "x", "max_tokens": 1})
        assert again.status_code == 200
        assert "connection" not in again.headers


@pytest.mark.behaviour(
    "a drain ends when clients have their answers, not when the answers are ready",
    report="own finding: a large whole answer that was read slowly was cut by SIGTERM, as complete",
)
def test_sigterm_loses_no_running_request() -> None:
    with engine_server("--drain-grace-seconds=4", law=SLOW_LAW) as running:
        reader = SlowReader(running.api)
        size = reader.head()
        stream = Streaming(running.api, max_tokens=250)
        stream.start()
        assert stream.began.get(timeout=60) == 200
        running.terminate()
        running.wait_for("draining")
        assert httpx.get(running.health + "/readyz").status_code == 503
        assert httpx.post(running.api + TEXT, json={"prompt": "x", "max_tokens": 1}).is_success
        assert httpx.delete(running.admin + "/admin/drain").status_code == 409
        # So nobody takes it for a drain that someone began.
        assert httpx.get(running.admin + "/admin/drain").json()["terminal"] is True
        stream.join(120)
        assert stream.lines[-1] == "data: [DONE]"
        state = httpx.get(running.admin + "/admin/drain").json()
        assert (state["runningRequests"], state["empty"]) == (1, False)
        assert running.value("requests_total", outcome="length") == 2  # not yet the large one
        answer = reader.rest()
        assert len(answer) == size > 6_000_000
        assert len(json.loads(answer)["choices"]) == 16
        assert running.wait() == 0


def test_sigterm_while_it_loads_ends_at_once() -> None:
    flags = ("--load-seconds=60", "--drain-grace-seconds=60")
    with engine_server(*flags, ready=False) as running:
        running.terminate()
        assert running.wait(50) == 0


def answer_of(asked: socket.socket) -> tuple[int, str]:
    """Status and code of the refusal that comes."""
    with asked, HTTPResponse(asked) as answer:
        answer.begin()
        assert answer.headers["retry-after"] == "1"
        assert answer.headers["x-request-id"]
        return answer.status, json.loads(answer.read())["error"]["code"]


def ask(server: EngineServer, *, missing: int = 0) -> socket.socket:
    """Asks for a long whole answer, in a body of which so many bytes do not come."""
    place = urlsplit(server.api)
    asked = socket.create_connection((place.hostname, place.port), timeout=60)
    body = json.dumps({**LONG, "stream": False}).encode()
    head = b"POST %b HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n"
    asked.sendall(head % (TEXT.encode(), len(body)) + body[: len(body) - missing])
    return asked


@pytest.mark.behaviour(
    "whoever is still there when a drain's time is up is told so: 503, or a stream's last event",
    report="own finding: they got a bare 500, and the log a traceback for each of them",
)
def test_sigterm_cuts_what_outlasts_the_drain() -> None:
    flags = ("--drain-grace-seconds=0", "--drain-seconds=0.3")
    with engine_server(*flags, law=SLOW_LAW) as running:
        stream = Streaming(running.api, max_tokens=5000)
        stream.start()
        assert stream.began.get(timeout=60) == 200
        whole, half = ask(running), ask(running, missing=1)
        eventually(lambda: running.value("requests_running") == 2)
        engine = running.engine_pid()
        running.terminate()
        assert running.wait() == 0
        stream.join(60)
        assert '"unavailable"' in stream.lines[-1]
        assert answer_of(whole) == (503, "unavailable")
        assert answer_of(half) == (503, "draining")
        assert not os.path.exists(f"/proc/{engine}")
    assert any("outlast the drain" in line for line in running.log)
    assert not any("Traceback" in line for line in running.log)


def test_interrupt_skips_the_grace_and_a_second_one_the_drain() -> None:
    with engine_server("--drain-grace-seconds=60", law=SLOW_LAW) as running:
        stream = Streaming(running.api, max_tokens=5000)
        stream.start()
        assert stream.began.get(timeout=60) == 200
        running.process.send_signal(signal.SIGINT)
        eventually(lambda: httpx.post(running.api + TEXT, json={"prompt": "x"}).status_code == 503)
        assert running.process.poll() is None
        running.process.send_signal(signal.SIGINT)
        assert running.wait() == 0
        stream.join(60)


def test_a_dead_engine_is_said_everywhere_and_ends_the_process() -> None:
    with engine_server(law=SLOW_LAW) as running:
        stream = Streaming(running.api, max_tokens=5000)
        stream.start()
        assert stream.began.get(timeout=60) == 200
        half = ask(running, missing=1)
        os.kill(running.engine_pid(), signal.SIGKILL)
        stream.join(60)
        assert answer_of(half) == (503, "not_ready")
        assert '"error"' in stream.lines[-1]
        assert httpx.get(running.health + "/healthz").status_code == 503
        assert httpx.get(running.health + "/readyz").status_code == 503
        refused = httpx.post(running.api + TEXT, json={"prompt": "x"})
        assert refused.status_code == 503
        assert running.value("requests_total", outcome="error") == 1
        assert running.wait() == 1
    assert any("ERROR" in line and "signal 9" in line for line in running.log)


@pytest.mark.slow
def test_a_silent_engine_fails_liveness() -> None:
    with engine_server() as running:
        engine = running.engine_pid()
        os.kill(engine, signal.SIGSTOP)
        try:
            assert httpx.get(running.health + "/healthz").status_code == 200
            eventually(
                lambda: httpx.get(running.health + "/healthz").status_code == 503, within_s=15
            )
            assert "heartbeat" in httpx.get(running.health + "/healthz").text
        finally:
            os.kill(engine, signal.SIGCONT)
        eventually(lambda: httpx.get(running.health + "/healthz").status_code == 200)


def test_logs_hold_no_prompt_and_no_token(tmp_path_factory: pytest.TempPathFactory) -> None:
    token = tmp_path_factory.mktemp("admin") / "token"
    token.write_text("very-secret")
    with engine_server(f"--admin-token-file={token}", "--log-level=debug") as running:
        for prompt in ("a private matter", "\ud800"):
            httpx.post(running.api + TEXT, content=f'{{"prompt": "{ascii(prompt)[1:-1]}"}}')
        httpx.get(running.admin + "/admin/tunables", headers={"authorization": "Bearer guessed"})
        running.terminate()
        running.wait()
    log = "\n".join(running.log)
    assert "draining" in log
    for secret in ("private", "very-secret", "guessed", TEXT):
        assert secret not in log
