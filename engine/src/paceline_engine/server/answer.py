"""Runs a call and writes its answer, whole or as server-sent events.

Nothing is sent before the first piece is there, so what goes wrong until then has its own
status. A client that leaves ends the call, also while a whole answer is in the making.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from msgspec import UNSET
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send
from typing_extensions import override

from paceline_engine.server.call import Call
from paceline_engine.server.draft import Draft
from paceline_engine.server.errors import ApiError
from paceline_engine.server.generation import AbandonedError
from paceline_engine.server.piece import Piece
from paceline_engine.server.shape import ChunkUsage, Shape

DONE: Final = b"data: [DONE]\n\n"
EVENT_HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]


def event(data: bytes) -> bytes:
    """One server-sent event; JSON has no line breaks in it."""
    return b"data: " + data + b"\n\n"


async def _on_leave(receive: Receive, call: Call) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    call.cancel()


class Answer(Response):
    """Base: admits the call, watches the client, writes.

    Args:
        call: What to run.
        shape: How to write it.
    """

    def __init__(self, call: Call, shape: Shape) -> None:
        super().__init__()
        self._call = call
        self._shape = shape

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._call:
            watcher = asyncio.create_task(_on_leave(receive, self._call))
            try:
                await self._write(self._to_reader(send, scope["state"]["is_gone"]))
            except AbandonedError:
                pass
            finally:
                watcher.cancel()

    def _to_reader(self, send: Send, is_gone: Callable[[], bool]) -> Send:
        """`send` that ends the call where the client did not take what was sent."""

        async def send_on(message: Message) -> None:
            await send(message)
            if is_gone():
                self._call.cancel()
                raise AbandonedError

        return send_on

    async def _write(self, send: Send) -> None:
        raise NotImplementedError


class WholeAnswer(Answer):
    """The answer in one piece."""

    @override
    async def _write(self, send: Send) -> None:
        drafts: dict[int, Draft] = {}
        async for index, piece in self._call.pieces():
            drafts.setdefault(index, Draft()).add(piece)
            self._call.handed(index, piece)
        lasts = {index: draft.last for index, draft in drafts.items()}
        body = await self._unless_left(self._body(drafts))
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})
        await self._call.all_written(lasts)

    async def _body(self, drafts: Mapping[int, Draft]) -> bytes:
        return await self._shape.whole(await self._call.chosen(drafts), self._call.usage)

    async def _unless_left(self, writing: Coroutine[Any, Any, bytes]) -> bytes:
        """Writes for as long as somebody waits for it."""
        tasks = asyncio.create_task(writing), asyncio.create_task(self._call.left.wait())
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if not tasks[0].done():
                raise AbandonedError
            return tasks[0].result()
        finally:
            for each in tasks:
                each.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


class EventStream(Answer):
    """The answer as it comes.

    Args:
        call: What to run.
        shape: How to write it.
        with_usage: Whether a last chunk carries the usage.
        continuous_usage: Whether each chunk carries its choice's so far.
    """

    def __init__(
        self, call: Call, shape: Shape, *, with_usage: bool, continuous_usage: bool = False
    ) -> None:
        super().__init__(call, shape)
        self._with_usage = with_usage
        self._continuous_usage = continuous_usage
        self._begun: set[int] = set()

    @override
    async def _write(self, send: Send) -> None:
        try:
            async for index, piece in self._call.pieces():
                await self._write_piece(send, index, piece)
        except ApiError as error:
            if not self._begun:
                raise
            await self._end(send, event(error.body()))
            return
        usage = event(self._shape.closing(self._call.usage)) if self._with_usage else b""
        await self._end(send, usage + DONE)

    async def _write_piece(self, send: Send, index: int, piece: Piece) -> None:
        is_first, usage = index not in self._begun, self._usage(index, piece)
        chunk = event(await self._shape.chunk(index, piece, is_first=is_first, usage=usage))
        self._call.handed(index, piece)  # writing is our time, only sending is the client's
        if not self._begun:
            await send({"type": "http.response.start", "status": 200, "headers": EVENT_HEADERS})
        self._begun.add(index)
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
        self._call.written(index, piece)

    def _usage(self, index: int, piece: Piece) -> ChunkUsage:
        if self._continuous_usage:
            return self._call.choice_usage(index, piece)
        return None if self._with_usage else UNSET

    async def _end(self, send: Send, body: bytes) -> None:
        await send({"type": "http.response.body", "body": body, "more_body": False})
