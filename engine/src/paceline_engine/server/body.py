"""Reads a request's body, up to a limit of size and time."""

from __future__ import annotations

import asyncio

from starlette.requests import ClientDisconnect, Request

from paceline_engine.server.body_room import Held
from paceline_engine.server.errors import BodyTimeoutError, BodyTooLargeError

__all__ = ["ClientDisconnect", "read_body"]


async def read_body(
    request: Request, max_bytes: int, deadline_s: float, held: Held | None = None
) -> bytes:
    """Reads the whole body.

    Args:
        request: Whose.
        max_bytes: Limit of its size.
        deadline_s: Limit of the time it may take.
        held: Takes room for what has come; None where bodies are too small to count.

    Raises:
        UnavailableError: Other bodies take the room.
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
    try:
        async with asyncio.timeout(deadline_s):
            return await _read(request, max_bytes, held)
    except TimeoutError as error:
        raise BodyTimeoutError(
            f"the body did not arrive within {deadline_s:g} s; send it again"
        ) from error


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
