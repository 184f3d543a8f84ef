"""One client's connection: when its calls began, and how much and how long it may keep us."""

from __future__ import annotations

import asyncio
import time
import urllib.parse
from collections.abc import Callable
from typing import Any, Final

from starlette.types import Scope
from typing_extensions import override
from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.utils import get_local_addr, get_remote_addr
from uvicorn.server import ServerState

from paceline_engine.server.arrival import unread_s
from paceline_engine.server.errors import ApiError, CrowdedError, HeadTimeoutError
from paceline_engine.server.exchange import Exchange
from paceline_engine.server.outflow import Outflow
from paceline_engine.server.pressure import Pressure
from paceline_engine.server.request_parser import Head, PipelinedError, RequestParser
from paceline_engine.server.settings import WRITE_DEADLINE_S

IDLE_CONNECTION_S: Final = 75.0
HEAD_DEADLINE_S: Final = 30.0
LINGER_S: Final = 1.0  # silence after the last answer; closing on unread bytes resets it away
LONGEST_LINGER_S: Final = 30.0
_REASONS: Final = {400: b"Bad Request", 408: b"Request Timeout", 503: b"Service Unavailable"}
_TOO_LARGE: Final = b"Request Header Fields Too Large"


class ClientConnection(asyncio.Protocol):
    """Reads requests one at a time, has each answered, and ends when either side wants it.

    The ASGI scope's `state` has `received_at`, when the request's first byte arrived, before it
    is parsed, in seconds of `time.monotonic`, `is_gone`, which says whether the client has left
    without all of its answer, and `pressure`, the time in which it did not read.

    What anyone can make us hold before a key was checked is bounded: a request's line, headers
    and trailers are at most `MAX_HEAD_BYTES`, its head arrives within `HEAD_DEADLINE_S` of the
    first byte, and a connection on which nothing is asked or answered is closed after
    `IDLE_CONNECTION_S`. What a client sends before it has its answer is dropped and the
    connection ends with that answer; it is read all the same, so that its leaving is seen.

    Args:
        config: uvicorn's, with the application.
        server_state: Connections and tasks of the server.
        app_state: Copied into each scope.
        write_deadline_s: How long the client may leave its answer unread.
        admit: Asked, with the number of other connections, whether this one is served.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        write_deadline_s: float = WRITE_DEADLINE_S,
        admit: Callable[[int], bool] = lambda _others: True,
    ) -> None:
        self._app = config.loaded_app
        self._server = server_state
        self._app_state = app_state
        self._write_deadline_s = write_deadline_s
        self._admit = admit
        self._loop = _loop or asyncio.get_running_loop()
        self._parser = RequestParser(self)
        self._pressure = Pressure()
        self._exchange: Exchange | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._read_at = self._received_at = 0.0
        self._head_began = False  # a first byte has come, and not yet all headers
        self._is_deaf = False  # what comes is read and dropped
        self._came = False  # something was dropped since the last look
        self._leaves_at = 0.0

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport
        self._ours, self._theirs = get_local_addr(transport), get_remote_addr(transport)
        self._outflow = Outflow(
            transport, self._write_deadline_s, on_close=self._finish, on_unread=self._cut
        )
        others = len(self._server.connections)
        self._server.connections.add(self)  # type: ignore[arg-type]  # it asks for `shutdown` alone
        if self._admit(others):
            self._watch(IDLE_CONNECTION_S, self._expire)
        else:
            self._refuse(CrowdedError("too many connections are open; try again"))
            self._leaves_at = self._loop.time()  # whatever it sends, a moment is all it gets

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._server.connections.discard(self)
        self._unwatch()
        if self._exchange is not None:
            self._exchange.disconnect()
        self._outflow.resume_writing()
        self._parser.close()

    @override
    def pause_writing(self) -> None:
        self._pressure.begin()
        self._outflow.pause_writing()

    @override
    def resume_writing(self) -> None:
        self._pressure.end()
        self._outflow.resume_writing()

    @override
    def data_received(self, data: bytes) -> None:
        if self._is_deaf:
            self._came = True
            return
        self._read_at = time.monotonic()
        try:
            self._parser.feed(data)
        except PipelinedError:
            self._answer_no_more()
        except ApiError as error:
            self._refuse(error)

    def on_begin(self) -> None:
        """Called by the parser, as all `on_`: a request's first byte."""
        if self._answering:
            raise PipelinedError
        if not self._head_began:
            self._head_began = True
            self._watch(HEAD_DEADLINE_S, self._expire)
        self._received_at = self._read_at - unread_s(self._transport.get_extra_info("socket"))

    def on_head(self, head: Head) -> None:
        """Its headers are complete: runs the application."""
        self._head_began = False
        self._unwatch()
        scope = self._scope(head)
        exchange = Exchange(
            scope,
            self._outflow,
            keep_alive=head.http_version != "1.0" and head.keeps_alive,
            expects_continue=head.expects_continue,
            default_headers=self._server.default_headers,
            on_over=self._on_over,
        )
        scope["state"]["is_gone"] = lambda: exchange.disconnected
        self._exchange = exchange
        task = self._loop.create_task(exchange.run_asgi(self._app))
        task.add_done_callback(self._server.tasks.discard)
        self._server.tasks.add(task)

    def on_body_part(self, part: bytes) -> None:
        """Some more of it."""
        if self._exchange is not None and self._exchange.add_body(part) > HIGH_WATER_LIMIT:
            self._outflow.pause_reading()

    def on_end(self, *, keeps_alive: bool) -> None:
        """It is complete; where it is the last after all, its answer says so."""
        if self._exchange is not None:
            self._exchange.keep_alive = self._exchange.keep_alive and keeps_alive
            self._exchange.end_body()

    def shutdown(self) -> None:
        """The server ends: no further request."""
        if self._answering:
            self._answer_no_more()
        elif self._outflow.unread:
            self._finish()
        else:
            self._transport.close()

    @property
    def unread(self) -> int:
        """Bytes that the client's side has not confirmed."""
        return self._outflow.unread

    @property
    def _answering(self) -> bool:
        return self._exchange is not None and self._exchange.is_open

    def _scope(self, head: Head) -> Scope:
        path = head.path.decode("ascii")
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": head.http_version,
            "server": self._ours,
            "client": self._theirs,
            "scheme": "http",
            "method": head.method,
            "root_path": "",
            "path": urllib.parse.unquote(path) if "%" in path else path,
            "raw_path": head.path,
            "query_string": head.query,
            "headers": head.headers,
            "state": {
                **self._app_state,
                "received_at": self._received_at,
                "pressure": self._pressure,
            },
        }

    def _on_over(self) -> None:
        """The answer is out, or failed."""
        exchange, self._exchange = self._exchange, None
        if exchange is None or self._transport.is_closing():
            return
        if exchange.keep_alive and exchange.response_complete and not self._is_deaf:
            self._outflow.resume_reading()
            self._watch(IDLE_CONNECTION_S, self._expire)
        else:
            self._finish()

    def _answer_no_more(self) -> None:
        """The answer in progress is the last one."""
        self._is_deaf = True
        if self._exchange is not None:
            self._exchange.keep_alive = False

    def _finish(self) -> None:
        """Says that this was all, and stays a moment for what the client reads and sends yet."""
        self._is_deaf = True
        self._outflow.resume_reading()
        self._outflow.end()
        if not self._answering:
            self._came = False
            self._leaves_at = self._loop.time() + LONGEST_LINGER_S
            self._watch(LINGER_S, self._leave)

    def _leave(self) -> None:
        if (self._came or self._outflow.unread) and self._loop.time() < self._leaves_at:
            self._came = False
            self._watch(LINGER_S, self._leave)
        elif self._outflow.is_empty:
            self._transport.close()
        else:
            self._transport.abort()

    def _cut(self) -> None:
        """The client has read nothing for too long."""
        if self._exchange is not None:
            self._exchange.disconnect()
        self._transport.abort()

    def _watch(self, seconds: float, then: Callable[[], None]) -> None:
        self._unwatch()
        self._timer = self._loop.call_later(seconds, then)

    def _unwatch(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        if self._head_began:
            self._refuse(
                HeadTimeoutError(
                    f"the request's headers did not arrive within {HEAD_DEADLINE_S:g} s; "
                    "send it again"
                )
            )
        elif not self._transport.is_closing():
            self._transport.close()

    def _refuse(self, error: ApiError) -> None:
        """Answers what never becomes a call, or not a whole one, and ends the connection."""
        exchange = self._exchange
        if exchange is not None and exchange.is_open:
            if not exchange.more_body:
                self._answer_no_more()
                return
            if exchange.response_started:
                self._cut()
                return
            exchange.disconnect()
        body = error.body()
        fields = b"".join(f"{name}: {each}\r\n".encode() for name, each in error.headers().items())
        self._outflow.write(
            b"HTTP/1.1 %d %b\r\ncontent-type: application/json\r\n"
            b"content-length: %d\r\nconnection: close\r\n%b\r\n%b"
            % (error.status, _REASONS.get(error.status, _TOO_LARGE), len(body), fields, body)
        )
        self._finish()
