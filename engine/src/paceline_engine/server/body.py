"""Reads a request's body, up to a limit."""

from __future__ import annotations

from starlette.requests import ClientDisconnect, Request

from paceline_engine.server.errors import BodyTooLargeError

__all__ = ["ClientDisconnect", "read_body"]


async def read_body(request: Request, max_bytes: int) -> bytes:
    """Reads the whole body.

    Raises:
        BodyTooLargeError: It is, or says that it will be, above the limit.
        ClientDisconnect: The client left while it sent.
    """
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > max_bytes:
        raise _too_large(max_bytes)
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > max_bytes:
            raise _too_large(max_bytes)
    return bytes(body)


def _too_large(max_bytes: int) -> BodyTooLargeError:
    return BodyTooLargeError(f"the body is larger than the limit of {max_bytes} bytes")
