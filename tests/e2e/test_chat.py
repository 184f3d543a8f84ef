"""One chat: a port that comes up in time or is given up, and a stream that is whole or refused."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from typing_extensions import override

from e2e.chat import port_forward, stream_chat
from e2e.kubectl import Kubectl, KubectlError

HELLO = b'data: {"choices":[{"delta":{"role":"assistant"}}]}\n\n'
PIECES = b"".join(b'data: {"choices":[{"delta":{"content":"%s"}}]}\n\n' % w for w in (b"a", b" b"))
DONE = b"data: [DONE]\n\n"


@pytest.fixture
def forwarding(tmp_path: Path) -> Callable[[str], Kubectl]:
    def made(body: str) -> Kubectl:
        program = tmp_path / "kubectl"
        program.write_text(f"#!/bin/sh\n{body}\n")
        program.chmod(0o755)
        return Kubectl(program, tmp_path / "config")

    return made


@contextmanager
def server(status: int, body: bytes) -> Iterator[int]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        @override
        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield http.server_port
        finally:
            http.shutdown()
            thread.join()


def test_the_port_is_read_and_the_program_ended(
    forwarding: Callable[[str], Kubectl], tmp_path: Path
) -> None:
    said = "Forwarding from 127.0.0.1:4711 -> 8000"
    kubectl = forwarding(f"echo $$ > {tmp_path}/pid; echo '{said}'; exec sleep 30")
    with port_forward(kubectl, "service/s", 8000) as port:
        assert port == 4711
        pid = int((tmp_path / "pid").read_text())
        assert Path(f"/proc/{pid}").exists()
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("exec sleep 30", "not up within 0.3 s: no word"),
        ("printf 'Forwarding from 127.0.0.1:47'; exec sleep 30", "not up within 0.3 s: Forwarding"),
        ("while :; do echo waiting; sleep 0.05; done", "not up within 0.3 s: waiting"),
    ],
    ids=["silent", "half a line", "talkative"],
)
def test_a_port_that_does_not_come_up_is_given_up_in_time(
    forwarding: Callable[[str], Kubectl], body: str, problem: str
) -> None:
    with (
        pytest.raises(KubectlError, match=problem),
        port_forward(forwarding(body), "service/s", 8000, patience_s=0.3),
    ):
        raise AssertionError


@pytest.mark.parametrize(
    ("body", "problem"),
    [("exit 1", "ended at once"), ("echo no such service >&2; exit 1", "no such service")],
)
def test_a_refusal_is_its_message(
    forwarding: Callable[[str], Kubectl], body: str, problem: str
) -> None:
    with (
        pytest.raises(KubectlError, match=f"port-forward service/s: {problem}"),
        port_forward(forwarding(body), "service/s", 8000),
    ):
        raise AssertionError


def test_pieces_come_in_order() -> None:
    with server(200, HELLO + PIECES + DONE) as port:
        assert list(stream_chat(port, "m", "?")) == ["", "a", " b"]


@pytest.mark.parametrize(
    ("status", "body", "problem"),
    [
        (429, b'{"error":{"message":"full"}}', "chat: 429 .*full"),
        (200, HELLO + PIECES, "chat: the answer was cut off"),
        (200, HELLO + b'data: {"error":{"message":"died"}}\n\n', "chat: died"),
        (200, b"data: {broken\n\n", "chat: the answer is broken"),
    ],
    ids=["refused", "cut off", "an error inside", "no JSON"],
)
def test_anything_but_a_whole_stream_is_an_error(status: int, body: bytes, problem: str) -> None:
    with server(status, body) as port, pytest.raises(ConnectionError, match=problem):
        list(stream_chat(port, "m", "?"))


def test_a_server_without_a_word_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        port = int(mute.getsockname()[1])
        with pytest.raises(ConnectionError, match=r"chat: no word for 0\.2 s"):
            list(stream_chat(port, "m", "?", patience_s=0.2))
