"""When a call's first bytes arrived, also where they lay unread while the event loop was busy."""

from __future__ import annotations

import socket
import struct
import sys
from typing import Final, Protocol

COARSENESS_S: Final = 0.004  # the kernel counts in ticks of 1 to 4 ms and may be one ahead
_TCP_INFO: Final = getattr(socket, "TCP_INFO", None) if sys.platform == "linux" else None
_LAST_DATA_RECV: Final = struct.Struct("@I")
_OFFSET: Final = 52  # of `tcpi_last_data_recv` in `struct tcp_info`: milliseconds
_LENGTH: Final = 104


class Connection(Protocol):
    """What is asked of a socket."""

    def getsockopt(self, level: int, option: int, length: int, /) -> bytes:
        """As a socket's."""
        ...


def unread_s(connection: Connection | None) -> float:
    """How long what was just read had been waiting in the kernel's buffer.

    A burst of calls is read one by one; those at its end have waited before anyone in this
    process could see them. Less than it was, by up to twice `COARSENESS_S`.

    Args:
        connection: Socket that was read; None where it is not known.

    Returns:
        Seconds; 0 where the kernel does not say.
    """
    if connection is None or _TCP_INFO is None:
        return 0.0
    try:
        info = connection.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, _LENGTH)
    except OSError:
        return 0.0
    if len(info) < _OFFSET + _LAST_DATA_RECV.size:
        return 0.0
    last_data_recv_ms: int = _LAST_DATA_RECV.unpack_from(info, _OFFSET)[0]
    return max(0.0, last_data_recv_ms / 1e3 - COARSENESS_S)
