"""One client's connection: when its calls began, and how much and how long it may keep us."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from typing_extensions import override
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from paceline_engine.server.arrival import unread_s
from paceline_engine.server.errors import (
    ApiError,
    BadRequestError,
    HeadTimeoutError,
    HeadTooLargeError,
)

IDLE_CONNECTION_S: Final = 75.0
HEAD_DEADLINE_S: Final = 30.0
LINGER_S: Final = 1.0  # a refusal's: closing on unread bytes would reset it away
MAX_HEAD_BYTES: Final = 64 * 1024
_REASONS: Final = {400: b"Bad Request", 408: b"Request Timeout"}
_TOO_LARGE: Final = b"Request Header Fields Too Large"
_OWN_BYTES: Final = 4  # of each header: colon, space, end of line


class StampedProtocol(HttpToolsProtocol):
    """Notes when each request's first byte arrived, before it is parsed.

    The time is in the ASGI scope as `state["received_at"]`, in seconds of `time.monotonic`;
    `state["abort"]` cuts the connection without waiting for what is unread.

    What anyone can make us hold before a key was checked is bounded: a request's line and
    headers are at most `MAX_HEAD_BYTES` and arrive within `HEAD_DEADLINE_S` of their first byte,
    and a connection on which nothing is asked or answered is closed after `IDLE_CONNECTION_S`.
    """

    _read_at = 0.0
    _timer: asyncio.TimerHandle | None = None
    _head_began = False  # a first byte has come, and not yet all headers
    _in_body = False
    _ended_in_chunk = False
    _head_bytes = 0
    _refused = False

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch(IDLE_CONNECTION_S)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._unwatch()
        super().connection_lost(exc)

    @override
    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        self._read_at = time.monotonic()
        self._ended_in_chunk = False
        if not self._in_body:
            self._begin_head()
        super().data_received(data)
        if self._head_began and not self._ended_in_chunk and not self._refused:
            self._head_bytes += len(data)
            self._check_head()

    @override
    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._begin_head()
        if self._ended_in_chunk:
            self._head_bytes = 0
        waited_s = unread_s(self.transport.get_extra_info("socket"))
        self.scope["state"]["received_at"] = self._read_at - waited_s
        self.scope["state"]["abort"] = self.transport.abort

    @override
    def on_headers_complete(self) -> None:
        self._head_began, self._in_body = False, True
        fields = sum(len(name) + len(value) + _OWN_BYTES for name, value in self.headers)
        self._head_bytes = len(self.url) + fields
        self._check_head()
        if not self._refused:
            self._unwatch()
            super().on_headers_complete()

    @override
    def on_body(self, body: bytes) -> None:
        if not self._refused:
            super().on_body(body)

    @override
    def on_message_complete(self) -> None:
        self._in_body, self._ended_in_chunk, self._head_bytes = False, True, 0
        if not self._refused:
            super().on_message_complete()

    @override
    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._answering:
            self._watch(HEAD_DEADLINE_S if self._head_began else IDLE_CONNECTION_S)

    @override
    def send_400_response(self, msg: str) -> None:
        if not self._refused:
            self._refuse(BadRequestError("this is not a valid HTTP request"))

    @property
    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _begin_head(self) -> None:
        if self._head_began:
            return
        self._head_began, self._head_bytes = True, 0
        if not self._answering:
            self._watch(HEAD_DEADLINE_S)

    def _check_head(self) -> None:
        if self._head_bytes > MAX_HEAD_BYTES:
            self._refuse(
                HeadTooLargeError(
                    f"the request's line and headers are larger than {MAX_HEAD_BYTES} bytes"
                )
            )

    def _watch(self, seconds: float) -> None:
        self._unwatch()
        self._timer = self.loop.call_later(seconds, self._expire)

    def _unwatch(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        if self.transport.is_closing():
            return
        if self._head_began and not self._refused:
            self._refuse(
                HeadTimeoutError(
                    f"the request's headers did not arrive within {HEAD_DEADLINE_S:g} s; "
                    "send it again"
                )
            )
        else:
            self.transport.close()

    def _refuse(self, error: ApiError) -> None:
        """Answers what never becomes a call, and closes; between answers only."""
        self._refused = True
        if self._answering or self.transport.is_closing():
            self.transport.abort()
            return
        body = error.body()
        self.transport.write(
            b"HTTP/1.1 %d %b\r\ncontent-type: application/json\r\n"
            b"content-length: %d\r\nconnection: close\r\n\r\n%b"
            % (error.status, _REASONS.get(error.status, _TOO_LARGE), len(body), body)
        )
        self.transport.write_eof()
        self._watch(LINGER_S)
