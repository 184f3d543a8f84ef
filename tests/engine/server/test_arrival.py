from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from paceline_engine.server.arrival import COARSENESS_S, unread_s


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a TCP connection."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname()) as client,
        listening.accept()[0] as server,
    ):
        yield client, server


def test_the_wait_in_the_kernels_buffer_is_told(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    client, server = pair
    sent_at = time.monotonic()
    client.sendall(b"x")
    arrived_by = time.monotonic()
    time.sleep(0.1)
    server.recv(1)
    told_s, read_at = unread_s(server), time.monotonic()
    assert told_s <= read_at - sent_at
    assert told_s >= 0.1 - 3 * COARSENESS_S
    assert arrived_by <= read_at


def test_what_is_read_at_once_did_not_wait(pair: tuple[socket.socket, socket.socket]) -> None:
    client, server = pair
    shortest_s = 1.0
    for _ in range(50):  # one of them is not held up by the machine
        client.sendall(b"x")
        server.recv(1)
        shortest_s = min(shortest_s, unread_s(server))
    assert shortest_s == 0.0


def test_where_nobody_can_tell_it_is_nothing() -> None:
    assert unread_s(None) == 0.0
    with socket.socket(socket.AF_UNIX) as other:
        assert unread_s(other) == 0.0

    class Short:
        def getsockopt(self, level: int, option: int, length: int, /) -> bytes:
            return b"\0" * 20

    assert unread_s(Short()) == 0.0
