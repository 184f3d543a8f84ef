"""Body of an HTTP answer, no longer than it may be: whoever answers is not trusted."""

from __future__ import annotations

import aiohttp


class BodyTooLongError(ValueError):
    """There is more of it; the text says than what."""


async def read_body(reply: aiohttp.ClientResponse, most_bytes: int) -> bytes:
    """All of it.

    Raises:
        BodyTooLongError: It is longer than that.
    """
    body = await reply.content.read(most_bytes + 1)
    while len(body) <= most_bytes and (more := await reply.content.read(most_bytes)):
        body += more
    if len(body) > most_bytes:
        raise BodyTooLongError(f"answer above {most_bytes} bytes")
    return body
