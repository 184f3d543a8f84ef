"""What surrounds each call on the API port: its id, the drain's header, the count, defects."""

from __future__ import annotations

import asyncio
import logging
import re
import uuid
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from paceline_engine.log import places
from paceline_engine.server.error_routes import error_response
from paceline_engine.server.errors import UnavailableError
from paceline_engine.server.service import Service

REQUEST_ID: Final = b"x-request-id"
_ECHOED: Final = re.compile(rb"[\x21-\x7e]{1,128}")

_log = logging.getLogger(__name__)


def request_id(scope: Scope) -> bytes:
    """The caller's request id, or a new one where there is none fit to repeat."""
    for name, value in scope["headers"]:
        if name == REQUEST_ID and _ECHOED.fullmatch(value):
            return bytes(value)
    return uuid.uuid4().hex.encode()


def log_defect(error: Exception, own_id: bytes) -> None:
    """Logs where an unexpected error arose, and for whom; its text may hold a prompt."""
    _log.error("defect in call %s: %s", own_id.decode("ascii"), places(error))


def cut_off() -> UnavailableError:
    """What a call is told that outlasts the server."""
    return UnavailableError("this replica has ended; retry, another may serve")


class Envelope:
    """ASGI wrapper around the API.

    Args:
        app: The API.
        service: Calls are counted in it, its drain decides about connections.
    """

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one call."""
        if scope["type"] != "http":
            return
        own_id = request_id(scope)
        scope.setdefault("state", {})["request_id"] = own_id.decode("ascii")

        has_begun = False

        async def send_enveloped(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *self._headers(own_id)]}
            await send(message)

        self._service.calls.enter()
        try:
            await self._app(scope, receive, send_enveloped)
        except asyncio.CancelledError:
            if not has_begun:
                await error_response(cut_off())(scope, receive, send_enveloped)
            raise
        except Exception as error:  # noqa: BLE001 a defect ends one call, never the server
            log_defect(error, own_id)  # answered by the application, or cut off by uvicorn if begun
        finally:
            self._service.calls.leave()

    def _headers(self, own_id: bytes) -> list[tuple[bytes, bytes]]:
        headers = [(REQUEST_ID, own_id)]
        if self._service.drain.active:
            headers.append((b"connection", b"close"))
        return headers
