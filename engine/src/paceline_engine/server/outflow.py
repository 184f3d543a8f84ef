"""What is on its way to a client, and how long the client may leave it unread."""

from __future__ import annotations

import asyncio
import fcntl
import struct
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from typing_extensions import override
from uvicorn.protocols.http.flow_control import FlowControl

LEAST_BYTES_S: Final = 1024.0
"""A client that takes less than this, over the whole time that it may take, does not read."""

_COUNT: Final = struct.Struct("@i")
_JOINED_BYTES: Final = 64 * 1024  # up to here copying costs less than one more write


class Outflow(FlowControl):
    """The way out of one connection; stands where uvicorn expects transport and flow control.

    Args:
        transport: The connection's.
        patience_s: How long the client may take next to nothing of what waits for it.
        on_close: Ends our side of the connection.
        on_unread: Called once the client's time is up.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        patience_s: float,
        *,
        on_close: Callable[[], None],
        on_unread: Callable[[], None],
    ) -> None:
        super().__init__(transport)
        self._patience_s = patience_s
        self._on_close = on_close
        self._on_unread = on_unread
        self._held = b""
        self._is_holding = False
        self._has_ended = False

    @property
    def is_empty(self) -> bool:
        """Whether the kernel has taken every byte."""
        return not self._transport.get_write_buffer_size()

    @property
    def unread(self) -> int:
        """Bytes that the client's side has not confirmed, as far as the system tells."""
        ours: int = self._transport.get_write_buffer_size()
        return ours + _unconfirmed(self._transport.get_extra_info("socket"))

    @contextmanager
    def holding(self) -> Iterator[None]:
        """What is written meanwhile waits for the next write: one packet, one wake-up."""
        self._is_holding = True
        try:
            yield
        finally:
            self._is_holding = False

    def write(self, data: bytes) -> None:
        """Writes; nothing after the end."""
        if self._has_ended:
            return
        if self._is_holding:
            self._held += data
            return
        if len(data) > _JOINED_BYTES:
            self.release()
        data, self._held = self._held + data if self._held else data, b""
        self._transport.write(data)

    def release(self) -> None:
        """Writes what is still held."""
        held, self._held = self._held, b""
        if held:
            self._transport.write(held)

    def is_closing(self) -> bool:
        """Whether nothing can be written any more."""
        closing: bool = self._transport.is_closing()
        return closing

    def close(self) -> None:
        """Called by uvicorn where it means the whole connection."""
        self.release()
        self._on_close()

    def end(self) -> None:
        """Ends our side, after what was written."""
        if not self._has_ended and not self.is_closing():
            self._has_ended = True
            self._transport.write_eof()

    def tighten(self) -> None:
        """From now on `drain` waits for every byte."""
        if not self.is_closing():
            self._transport.set_write_buffer_limits(high=0)

    def loosen(self) -> None:
        """Undoes `tighten`."""
        if not self.is_closing():
            self._transport.set_write_buffer_limits()

    @override
    async def drain(self) -> None:
        """Waits while too much is unsent, as long as the client takes some of it."""
        while self.write_paused:
            before = self.unread
            try:
                async with asyncio.timeout(self._patience_s):
                    await super().drain()
            except TimeoutError:
                if before - self.unread < LEAST_BYTES_S * self._patience_s:
                    self._on_unread()
                    return


def _unconfirmed(connection: object) -> int:
    """Bytes in the kernel's buffer that the other side's kernel has not confirmed."""
    fileno = getattr(connection, "fileno", None)
    if fileno is None:
        return 0
    try:
        raw = fcntl.ioctl(fileno(), termios.TIOCOUTQ, bytes(_COUNT.size))
    except (OSError, ValueError):  # closed, or not known here
        return 0
    count: int = _COUNT.unpack(raw)[0]
    return count
