"""Slow and vanishing clients: others are served meanwhile, and nothing of them stays."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.support.engine_server import EngineServer, engine_server, eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SETTLE_S = 60.0
VANISHING = 5
BODY = json.dumps({"prompt": "pace", "max_tokens": 400, "stream": True}).encode()
LARGE = json.dumps(
    {"prompt": "p" * 1000, "max_tokens": 1, "n": 16, "echo": True, "logprobs": 20}
).encode()
HEAD = (
    b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    b"content-length: %d\r\n\r\n"
)
RESET = struct.pack("ii", 1, 0)  # linger on, 0 s: close sends RST


@pytest.fixture(scope="module")
def server() -> Iterator[EngineServer]:
    with engine_server("--max-num-seqs=8", law="base_ms=10,per_token_ms=0.01") as running:
        yield running


def connect(server: EngineServer) -> socket.socket:
    place = urlsplit(server.api)
    return socket.create_connection((place.hostname or "", place.port or 0), timeout=30)


def answer(server: EngineServer) -> httpx.Response:
    body = {"prompt": "pace", "max_tokens": 3}
    return httpx.post(f"{server.api}/v1/completions", json=body, timeout=60)


def open_files(server: EngineServer) -> int:
    return len(list(Path(f"/proc/{server.process.pid}/fd").iterdir()))


def after_head(client: socket.socket) -> None:
    client.sendall(HEAD % len(BODY))


def after_half_the_body(client: socket.socket) -> None:
    client.sendall(HEAD % len(BODY) + BODY[: len(BODY) // 2])


def after_the_body(client: socket.socket) -> None:
    client.sendall(HEAD % len(BODY) + BODY)


def in_mid_stream(client: socket.socket) -> None:
    client.sendall(HEAD % len(BODY) + BODY)
    client.recv(1024)


def after_two_requests(client: socket.socket) -> None:
    client.sendall((HEAD % len(BODY) + BODY) * 2)
    client.recv(1024)


def in_a_large_whole_answer(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
    client.sendall(HEAD % len(LARGE) + LARGE)
    client.recv(1024)


def after_half_a_head(client: socket.socket) -> None:
    client.sendall(HEAD[:40])


def closed(client: socket.socket) -> None:
    client.close()


def reset(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    client.close()


@pytest.mark.behaviour(
    "a client that vanishes at any moment leaves no request, block or connection behind",
    report="llama.cpp #24496, #11720, #13262: generation went on for clients that were gone",
)
@pytest.mark.parametrize("leave", [closed, reset])
@pytest.mark.parametrize(
    "go_as_far",
    [
        after_half_a_head,
        after_head,
        after_half_the_body,
        after_the_body,
        in_mid_stream,
        after_two_requests,
        in_a_large_whole_answer,
    ],
)
def test_nothing_of_a_vanished_client_stays(
    server: EngineServer,
    go_as_far: Callable[[socket.socket], None],
    leave: Callable[[socket.socket], None],
) -> None:
    assert answer(server).status_code == 200
    before = open_files(server)
    for _ in range(VANISHING):
        client = connect(server)
        go_as_far(client)
        leave(client)
    assert answer(server).status_code == 200
    eventually(lambda: is_idle(server), within_s=SETTLE_S)
    eventually(lambda: open_files(server) <= before + 1, within_s=SETTLE_S)


def is_idle(server: EngineServer) -> bool:
    held = server.value("kv_cache_blocks", state="held")
    return not held + server.value("requests_running") + server.value("requests_waiting")


@pytest.mark.behaviour(
    "clients that send a byte at a time hold up nobody",
    report="slow clients: one connection that dawdles stops the server",
)
def test_slow_clients_hold_up_nobody(server: EngineServer) -> None:
    ended = threading.Event()

    def dawdle() -> None:
        with connect(server) as client:
            for byte in HEAD % len(BODY) + BODY:
                if ended.is_set():
                    return
                client.sendall(bytes([byte]))
                time.sleep(0.05)

    slow = [threading.Thread(target=dawdle) for _ in range(20)]
    for thread in slow:
        thread.start()
    try:
        assert [answer(server).status_code for _ in range(5)] == [200] * 5
    finally:
        ended.set()
        for thread in slow:
            thread.join()
    eventually(lambda: is_idle(server), within_s=SETTLE_S)


@pytest.mark.behaviour(
    "a client that does not read its stream holds up nobody, and nothing of it stays",
    report="unread streams: buffers grow without bound",
)
def test_a_client_that_does_not_read_holds_up_nobody(server: EngineServer) -> None:
    with connect(server) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        client.sendall(HEAD % len(BODY) + BODY)
        assert [answer(server).status_code for _ in range(5)] == [200] * 5
    eventually(lambda: is_idle(server), within_s=SETTLE_S)
