"""The engine's end of the socket to the server process."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import zmq

from paceline_engine.message import FromEngine, ToEngine

LAST_WORDS_MS = 1000  # how long closing may take to hand the last message over


class Channel:
    """Sends and receives messages; to be used by one thread at a time.

    Args:
        address: `ipc://` address the server has bound.
    """

    def __init__(self, address: str) -> None:
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.PAIR)
        self._socket.set_hwm(0)  # a slow server must not stop the steps
        self._socket.linger = LAST_WORDS_MS
        self._socket.connect(address)
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder[ToEngine](ToEngine)

    def send(self, message: FromEngine) -> None:
        """Queues a message; never blocks."""
        self._socket.send(self._encoder.encode(message))

    def wait(self, timeout_s: float) -> bool:
        """Waits for a message; returns whether there is one."""
        return bool(self._socket.poll(int(timeout_s * 1000)))

    def pending(self) -> Iterator[ToEngine]:
        """Messages that have arrived, oldest first, without waiting."""
        while True:
            try:
                frame = self._socket.recv(zmq.NOBLOCK)
            except zmq.Again:
                return
            yield self._decoder.decode(frame)

    def close(self) -> None:
        """Hands over what is queued and frees the socket."""
        self._socket.close()
        self._context.term()
