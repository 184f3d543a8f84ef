"""A client whose clock is fair: raw sockets, and the kernel's own stamps of what passes."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from tests.support import kernel_stamps

_EVENT = re.compile(rb"data: (.*?)\n\n")
_READ = 65536


@dataclass
class TimedCall:
    """One call to `/v1/completions`, run in a thread of its own.

    Attributes:
        url: Base URL of the API port.
        request_id: Sent as `X-Request-Id`.
        body: JSON body.
        leave_after: Text chunks after which the client closes the connection; None reads all.
        leave_after_s: The same in seconds after sending.
        sent_at: Monotonic time at which the kernel sent the request.
        ended_at: At which it had the last byte.
        status: HTTP status; 0 before there was one.
    """

    url: str
    request_id: str
    body: dict[str, Any]
    leave_after: int | None = None
    leave_after_s: float | None = None
    sent_at: float = 0.0
    ended_at: float = 0.0
    status: int = 0
    _parts: list[tuple[float, bytes]] = field(default_factory=list)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Connects, then sends and reads in the background."""
        where = urlsplit(self.url)
        connection = socket.create_connection((where.hostname, where.port), timeout=60)
        self._thread = threading.Thread(target=self._run, args=(connection,))
        self._thread.start()

    def join(self) -> None:
        """Waits for the end."""
        assert self._thread is not None
        self._thread.join(60)
        assert not self._thread.is_alive()

    def _run(self, connection: socket.socket) -> None:
        content = json.dumps(self.body).encode()
        head = (
            "POST /v1/completions HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\n"
            f"x-request-id: {self.request_id}\r\ncontent-length: {len(content)}\r\n"
            "connection: close\r\n\r\n"
        )
        with connection:
            kernel_stamps.stamp(connection)
            self.sent_at = kernel_stamps.send(connection, head.encode() + content)
            if self.leave_after_s is not None:
                time.sleep(self.leave_after_s)
                return
            self._read(connection)

    def _read(self, connection: socket.socket) -> None:
        seen = 0
        while (read := kernel_stamps.receive(connection, _READ))[0]:
            data, at = read
            self._parts.append((at, data))
            seen += data.count(b'"text":"') - data.count(b'"text":""')
            if self.leave_after is not None and seen >= self.leave_after:
                break
        self.ended_at = self._parts[-1][0]
        self.status = int(self._parts[0][1].split(b" ", 2)[1])

    def answer(self) -> dict[str, Any]:
        """Body of a whole answer."""
        raw = b"".join(data for _, data in self._parts)
        found: dict[str, Any] = json.loads(raw.partition(b"\r\n\r\n")[2])
        return found

    def emissions(self) -> dict[int, list[float]]:
        """When each chunk with text was there whole, by choice."""
        found: dict[int, list[float]] = {}
        for at, chunk in self._events():
            for choice in chunk["choices"]:
                times = found.setdefault(choice["index"], [])
                if choice["text"]:
                    times.append(at)
        return found

    def usage(self) -> dict[str, int]:
        """Usage that the stream ended with."""
        found: dict[str, int] = [chunk["usage"] for _, chunk in self._events()][-1]
        return found

    def _events(self) -> list[tuple[float, dict[str, Any]]]:
        raw = b"".join(data for _, data in self._parts)
        return [
            (self._there_at(match.end()), json.loads(match[1]))
            for match in _EVENT.finditer(raw)
            if match[1] != b"[DONE]"
        ]

    def _there_at(self, length: int) -> float:
        """When so many bytes were there."""
        seen = 0
        for at, data in self._parts:
            seen += len(data)
            if seen >= length:
                return at
        raise AssertionError("more bytes than were read")
