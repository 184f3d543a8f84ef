"""One HTTP call into the application, without a socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.types import ASGIApp, Message

from paceline_engine.server.pressure import Pressure


@dataclass(slots=True)
class Call:
    """A call in progress, then its answer.

    Attributes:
        path: Where to.
        body: JSON body.
        headers: Request headers.
        leave_after_s: The client hangs up so long after it began; None stays.
        status: Of the answer; 0 while there is none.
        sent: Bytes of the answer.
        has_left: Whether the client has hung up.
    """

    path: str
    body: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)
    leave_after_s: float | None = None
    status: int = 0
    sent: int = 0
    has_left: bool = False

    async def run(self, app: ASGIApp) -> None:
        """Runs it to its end, or until the client has left and the server has noticed."""
        loop = asyncio.get_running_loop()
        inbox: asyncio.Queue[Message] = asyncio.Queue()
        body = json.dumps(self.body).encode()
        inbox.put_nowait({"type": "http.request", "body": body, "more_body": False})

        def leave() -> None:
            self.has_left = True
            inbox.put_nowait({"type": "http.disconnect"})

        timer = None
        if self.leave_after_s is not None:
            timer = loop.call_later(self.leave_after_s, leave)
        try:
            await app(self._scope(loop.time(), len(body)), inbox.get, self._send)
        finally:
            if timer is not None:
                timer.cancel()

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            self.sent += len(message.get("body", b""))

    def _scope(self, received_at: float, length: int) -> dict[str, Any]:
        headers = {"content-type": "application/json", "content-length": str(length)}
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": self.path,
            "raw_path": self.path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [
                (name.encode(), value.encode())
                for name, value in {**headers, **self.headers}.items()
            ],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 8000),
            "state": {
                "received_at": received_at,
                "is_gone": lambda: self.has_left,
                "pressure": Pressure(),
            },
        }
