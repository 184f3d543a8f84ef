"""Reads a request's body, up to a limit of size and time, or to the end of the server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.requests import ClientDisconnect, Request

from paceline_engine.server.body_room import Held
from paceline_engine.server.errors import (
    BodyTimeoutError,
    BodyTooLargeError,
    UnavailableError,
)

__all__ = ["ClientDisconnect", "Readings", "read_body"]


class Readings:
    """The bodies that are being read: where nobody will serve their calls, all end at once."""

    def __init__(self) -> None:
        self._deadlines: set[asyncio.Timeout] = set()
        self._why: str | None = None

    def end(self, why: str) -> None:
        """Refuses those that are being read and all that come.

        Args:
            why: Code of the refusal.
        """
        self._why = why
        now = asyncio.get_running_loop().time()
        for deadline in self._deadlines:
            if not deadline.expired():
                deadline.reschedule(now)

    @asynccontextmanager
    async def within(self, deadline_s: float) -> AsyncIterator[None]:
        """Bounds the time of one reading.

        Raises:
            UnavailableError: The readings have ended.
            BodyTimeoutError: The time is up.
        """
        self._check()
        try:
            async with asyncio.timeout(deadline_s) as deadline:
                self._deadlines.add(deadline)
                try:
                    yield
                finally:
                    self._deadlines.discard(deadline)
        except TimeoutError as error:
            self._check()
            raise BodyTimeoutError(
                f"the body did not arrive within {deadline_s:g} s; send it again"
            ) from error

    def _check(self) -> None:
        if self._why is not None:
            raise UnavailableError(
                "this replica ends and reads no further; retry, another may serve", code=self._why
            )


async def read_body(
    request: Request,
    max_bytes: int,
    deadline_s: float,
    held: Held | None = None,
    readings: Readings | None = None,
) -> bytes:
    """Reads the whole body.

    Args:
        request: Whose.
        max_bytes: Limit of its size.
        deadline_s: Limit of the time it may take.
        held: Takes room for what has come; None where bodies are too small to count.
        readings: Those of the server.

    Raises:
        UnavailableError: Other bodies take the room, or the server ends.
        BodyTooLargeError: It is, or says that it will be, above the limit.
        BodyTimeoutError: It did not come in time.
        ClientDisconnect: The client left while it sent.
    """
    declared = request.headers.get("content-length", "")
    if declared.isdigit():
        if int(declared) > max_bytes:
            raise _too_large(max_bytes)
        if held is not None:
            held.check(int(declared))
    async with (readings or Readings()).within(deadline_s):
        return await _read(request, max_bytes, held)


async def _read(request: Request, max_bytes: int, held: Held | None) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        if len(body) + len(chunk) > max_bytes:
            raise _too_large(max_bytes)
        if held is not None:
            held.add(len(chunk))
        body += chunk
    return bytes(body)


def _too_large(max_bytes: int) -> BodyTooLargeError:
    return BodyTooLargeError(f"the body is larger than the limit of {max_bytes} bytes")
