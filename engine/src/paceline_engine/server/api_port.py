"""What all routes of the API port do first: the key, the body, the model's name."""

from __future__ import annotations

from typing import TypeVar

import msgspec
from fastapi import Request
from pydantic import BaseModel
from starlette.responses import Response

from paceline_engine.server.access import TokenFile, given_token
from paceline_engine.server.body import read_body
from paceline_engine.server.contents import check_contents
from paceline_engine.server.errors import UnauthorizedError
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

    async def read(self, model: type[Body], request: Request) -> Body:
        """Reads and checks a body.

        Raises:
            ApiError: Too large, too slow, too much in it, or not of the model's form.
            ClientDisconnect: The client left while it sent.
        """
        settings = self.service.settings
        raw = await read_body(request, settings.max_body_bytes, settings.body_deadline_seconds)
        check_contents(raw, max(settings.max_queued_tokens, most_ids(self.context)))
        with uncollected():
            return parse_body(model, raw, self.context)


def as_json(body: msgspec.Struct) -> Response:
    """A whole answer."""
    return Response(msgspec.json.encode(body), media_type="application/json")
