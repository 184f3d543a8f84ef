"""Reads a request's body, up to a limit of size and time."""

from __future__ import annotations

import asyncio

from starlette.requests import ClientDisconnect, Request

from paceline_engine.server.errors import BodyTimeoutError, BodyTooLargeError

__all__ = ["ClientDisconnect", "read_body"]


async def read_body(request: Request, max_bytes: int, deadline_s: float) -> bytes:
    """Reads the whole body.

    Args:
        request: Whose.
        max_bytes: Limit of its size.
        deadline_s: Limit of the time it may take.

    Raises:
        BodyTooLargeError: It is, or says that it will be, above the limit.
        BodyTimeoutError: It did not come in time.
        ClientDisconnect: The client left while it sent.
    """
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > max_bytes:
        raise _too_large(max_bytes)
    try:
        async with asyncio.timeout(deadline_s):
            return await _read(request, max_bytes)
    except TimeoutError as error:
        raise BodyTimeoutError(
            f"the body did not arrive within {deadline_s:g} s; send it again"
        ) from error


async def _read(request: Request, max_bytes: int) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > max_bytes:
            raise _too_large(max_bytes)
    return bytes(body)


def _too_large(max_bytes: int) -> BodyTooLargeError:
    return BodyTooLargeError(f"the body is larger than the limit of {max_bytes} bytes")
