"""A real HTTP server for one test, and the answers it may give."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Serve = Callable[[Handler], Awaitable[str]]
USAGE = {"prompt_tokens": 12, "completion_tokens": 4}


def event(**fields: Any) -> bytes:
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


def text_event(text: str, finish: str | None = None) -> bytes:
    return event(choices=[{"index": 0, "delta": {"content": text}, "finish_reason": finish}])


async def stream_of(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    return response


async def full_stream(request: web.Request) -> web.StreamResponse:
    response = await stream_of(request)
    await response.write(text_event(""))
    for text in ("a", "b", "c"):
        await response.write(text_event(text))
        await asyncio.sleep(0.02)
    await response.write(text_event("d", "length") + event(choices=[], usage=USAGE))
    await response.write(b"data: [DONE]\n\n")
    return response
