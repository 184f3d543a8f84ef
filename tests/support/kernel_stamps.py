"""When the kernel sent and received what a socket carries, on the monotonic clock.

A process may wait for a processor before it can look at a clock; the kernel stamps segments as
they pass.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from typing import Final

_SO_TIMESTAMPING: Final = 37
_SENT: Final = 1 << 1
_RECEIVED: Final = 1 << 3
_SOFTWARE: Final = 1 << 4
_WITHOUT_DATA: Final = 1 << 11
_STAMP: Final = struct.Struct("@qq")
_ROOM: Final = 512
PATIENCE_S: Final = 5.0


def stamp(connection: socket.socket) -> None:
    """Has the kernel stamp what this socket sends and receives from now on."""
    flags = _SENT | _RECEIVED | _SOFTWARE | _WITHOUT_DATA
    connection.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPING, flags)


def send(connection: socket.socket, data: bytes) -> float:
    """Sends all of it.

    Returns:
        When the last segment of it left.

    Raises:
        TimeoutError: The kernel did not say.
    """
    connection.sendall(data)
    poll = select.poll()
    poll.register(connection, 0)  # errors are told unasked, and a stamp is told as one
    if not poll.poll(PATIENCE_S * 1e3):
        raise TimeoutError("the kernel stamped nothing that was sent")
    sent_at = 0.0
    while poll.poll(0):
        _, ancillary, _, _ = connection.recvmsg(0, _ROOM, socket.MSG_ERRQUEUE)
        sent_at = _monotonic(ancillary)
    return sent_at


def receive(connection: socket.socket, most: int) -> tuple[bytes, float]:
    """Reads what is there, after waiting for it; empty at the end.

    Returns:
        The bytes, and when the last of them came; now, at the end.
    """
    data, ancillary, _, _ = connection.recvmsg(most, _ROOM)
    return data, _monotonic(ancillary) if data else time.monotonic()


def _monotonic(ancillary: list[tuple[int, int, bytes]]) -> float:
    """The stamp, which is of the wall clock."""
    (data,) = (data for _, kind, data in ancillary if kind == _SO_TIMESTAMPING)
    seconds: int
    nanoseconds: int
    seconds, nanoseconds = _STAMP.unpack_from(data)
    return seconds + nanoseconds / 1e9 + _ahead_s()


def _ahead_s() -> float:
    """Monotonic minus wall clock; the narrowest of some readings, since each may be held up."""
    readings = []
    for _ in range(3):
        before, wall_s, after = time.monotonic(), time.time(), time.monotonic()
        readings.append((after - before, (before + after) / 2 - wall_s))
    return min(readings)[1]
