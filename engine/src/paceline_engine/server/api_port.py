"""What all routes of the API port do first: the key, the body, the model's name."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import msgspec
from fastapi import Request
from pydantic import BaseModel
from starlette.responses import Response

from paceline_engine.server.access import TokenFile, given_token
from paceline_engine.server.body import read_body
from paceline_engine.server.body_room import BodyRoom, Held, room_bytes
from paceline_engine.server.contents import check_contents
from paceline_engine.server.errors import UnauthorizedError, UnavailableError
from paceline_engine.server.service import Service
from paceline_engine.server.tokenize_wire import most_ids
from paceline_engine.server.uncollected import uncollected
from paceline_engine.server.validation import parse_body

Body = TypeVar("Body", bound=BaseModel)


class ApiPort:
    """Entry of the API port's routes.

    Args:
        service: What it serves.
        keys: API keys; None leaves it open.
    """

    def __init__(self, service: Service, keys: TokenFile | None) -> None:
        self.service = service
        self._keys = keys
        self._room = BodyRoom(room_bytes(service.settings.max_body_bytes))

    @property
    def model_name(self) -> str:
        """Name that clients use."""
        return self.service.settings.model_name

    @property
    def context(self) -> int:
        """Prompt plus output tokens of one request at most."""
        return self.service.config.max_request_tokens

    def check_key(self, request: Request) -> None:
        """Whether the caller has an API key, where one is needed.

        Raises:
            UnauthorizedError: It has none.
        """
        if self._keys is None:
            return
        if not self._keys.accepts(given_token(request.headers)):
            raise UnauthorizedError("the API key is missing or wrong")

    @asynccontextmanager
    async def body(
        self,
        model: type[Body],
        request: Request,
        on_no_room: Callable[[UnavailableError], None] | None = None,
    ) -> AsyncIterator[Body]:
        """Reads and checks a body; it has its room until the context is left.

        Args:
            model: Its form.
            request: Whose it is.
            on_no_room: Told that it was refused for other bodies.

        Raises:
            ApiError: Too large, too slow, too much in it, or not of the model's form; no room.
            ClientDisconnect: The client left while it sent.
        """
        with self._room.hold() as held:
            try:
                raw = await self._raw(request, held)
            except UnavailableError as refusal:
                if on_no_room is not None:
                    on_no_room(refusal)
                raise
            body = self._parsed(model, raw)
            del raw
            yield body

    async def _raw(self, request: Request, held: Held) -> bytes:
        settings = self.service.settings
        return await read_body(
            request,
            settings.max_body_bytes,
            settings.body_deadline_seconds,
            held,
            self.service.readings,
        )

    def _parsed(self, model: type[Body], raw: bytes) -> Body:
        settings = self.service.settings
        check_contents(raw, max(settings.max_queued_tokens, most_ids(self.context)))
        with uncollected():
            return parse_body(model, raw, self.context)


def as_json(body: msgspec.Struct) -> Response:
    """A whole answer."""
    return Response(msgspec.json.encode(body), media_type="application/json")
