"""One request and its answer on a connection."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any

from starlette.types import Scope
from typing_extensions import override
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from paceline_engine.server.outflow import Outflow

_log = logging.getLogger("uvicorn.error")


class Exchange(RequestResponseCycle):
    """uvicorn's, with an end of its own: the answer is out when its last byte is.

    `send` returns once no more than a write buffer's worth waits for the client, and the last
    one once nothing does: what an application holds for an answer, it holds until then. Until
    then, too, `receive` tells the client's leaving, and only that.

    An answer that begins before its request was read to its end is the connection's last. One to
    HTTP/1.0, which knows no chunks, ends with the connection where its length is not known. What
    nobody has read of the request is let go with the end.

    Args:
        scope: The request.
        outflow: Where the answer goes.
        keep_alive: Whether another request may follow.
        expects_continue: Whether the client waits to be asked for its body.
        default_headers: Of every answer.
        on_over: Called at the end, however it ends.
    """

    def __init__(
        self,
        scope: Scope,
        outflow: Outflow,
        *,
        keep_alive: bool,
        expects_continue: bool,
        default_headers: Iterable[tuple[bytes, bytes]],
        on_over: Callable[[], None],
    ) -> None:
        super().__init__(
            scope=scope,  # type: ignore[arg-type]  # uvicorn's own type for the same
            transport=outflow,  # type: ignore[arg-type]  # it writes, closes and asks if closing
            flow=outflow,
            logger=_log,
            access_logger=_log,
            access_log=False,
            default_headers=list(default_headers),
            message_event=asyncio.Event(),
            expect_100_continue=expects_continue,
            keep_alive=keep_alive,
            on_response=lambda: None,
        )
        self._outflow = outflow
        self._on_over = on_over
        self._over = asyncio.Event()
        self._is_unframed = False  # its end is the connection's

    @property
    def is_open(self) -> bool:
        """Whether something of the answer is still to come, or to be taken by the kernel."""
        is_out = self.response_complete and self._outflow.is_empty
        return not (is_out or self._over.is_set())

    def add_body(self, part: bytes) -> int:
        """Some more of the request; returns how much of it nobody has read yet."""
        if not self.response_complete:
            self.body += part
            self.message_event.set()
        return len(self.body)

    def end_body(self) -> None:
        """The request is complete."""
        self.more_body = False
        self.message_event.set()

    def disconnect(self) -> None:
        """The client is gone; without consequence where it has its answer."""
        if self.is_open:
            self.disconnected = True
        self.message_event.set()
        self._over.set()
        self.body = bytearray()

    @override
    async def run_asgi(self, app: Any) -> None:
        """Runs the application; at the server's end it is cancelled, and the answer cut."""

        async def run(scope: Any, receive: Any, send: Any) -> None:
            try:
                await app(scope, receive, send)
            except asyncio.CancelledError:
                if not self.response_complete:
                    self.disconnect()
                    self._outflow.close()

        await super().run_asgi(run)
        self._end()

    @override
    async def receive(self) -> Any:
        """More of the request, or the client's leaving."""
        message = await super().receive()
        if message["type"] == "http.disconnect" and not self.disconnected:
            await self._over.wait()
        return message

    @override
    async def send(self, message: Any) -> None:
        """Writes some more of the answer."""
        if message["type"] == "http.response.start":
            self.keep_alive = self.keep_alive and not self.more_body
            self._choose_framing(message)
            with self._outflow.holding():
                await super().send(message)
            return
        is_last = not message.get("more_body", False)
        if self._is_unframed:
            self.expected_content_length = len(message.get("body", b""))
        if is_last:
            self._outflow.tighten()
        await super().send(message)
        self._outflow.release()
        await self._outflow.drain()
        if is_last:
            self._outflow.loosen()
            self._end()

    def _choose_framing(self, start: Any) -> None:
        has_length = any(name.lower() == b"content-length" for name, _ in start["headers"])
        if self.scope["http_version"] == "1.0" and not has_length:
            self._is_unframed = True
            self.chunked_encoding = False

    def _end(self) -> None:
        if not self._over.is_set():
            self._over.set()
            self.body = bytearray()
            self._on_over()
