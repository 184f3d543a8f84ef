"""A real connection whose client does not read."""

from __future__ import annotations

import asyncio

from starlette.types import Receive, Scope, Send

from paceline_engine.server.listeners import Listeners, bind


async def test_an_unread_connection_can_be_cut() -> None:
    seen: list[str] = []
    ended = asyncio.Event()

    async def flood(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        try:
            async with asyncio.timeout(0.2):
                while True:
                    part = {"type": "http.response.body", "body": bytes(1 << 20), "more_body": True}
                    await send(part)
        except TimeoutError:
            seen.append("blocked")
        scope["state"]["abort"]()
        seen.append((await receive())["type"])
        ended.set()

    bound = bind("127.0.0.1", 0, "--port")
    listeners = Listeners((flood, bound))
    listeners.start()
    _reader, writer = await asyncio.open_connection(*bound.getsockname(), limit=1024)
    try:
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        await asyncio.wait_for(ended.wait(), 10)
        assert seen == ["blocked", "http.disconnect"]
    finally:
        writer.transport.abort()
        await listeners.stop()
