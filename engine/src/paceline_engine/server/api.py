"""The API port: OpenAI's routes."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import msgspec
from fastapi import FastAPI, Request
from starlette.responses import Response

from paceline_engine.server.access import TokenFile, bearer_token
from paceline_engine.server.answer import Answer, EventStream, WholeAnswer
from paceline_engine.server.answer_wire import ModelCard, ModelList
from paceline_engine.server.body import read_body
from paceline_engine.server.call import Call
from paceline_engine.server.error_routes import bare_app
from paceline_engine.server.errors import ModelNotFoundError, UnauthorizedError
from paceline_engine.server.gate import Gate
from paceline_engine.server.prompts import (
    TokenIds,
    chat_prompt,
    check_fits,
    check_ids,
    check_model,
    encode_prompts,
    raw_prompts,
)
from paceline_engine.server.sampling_fields import SamplingFields
from paceline_engine.server.service import Service
from paceline_engine.server.shape import ChatShape, CompletionShape, Shape
from paceline_engine.server.validation import parse_body
from paceline_engine.server.wire import ChatRequest, CompletionRequest


def create_api(service: Service, keys: TokenFile | None) -> FastAPI:
    """Builds the application of the API port.

    Args:
        service: What it serves.
        keys: API keys; None leaves it open.
    """
    app = bare_app("Paceline engine")
    routes = _Routes(service, keys)
    app.add_api_route("/v1/completions", routes.completions, methods=["POST"], response_model=None)
    app.add_api_route("/v1/chat/completions", routes.chat, methods=["POST"], response_model=None)
    app.add_api_route("/v1/models", routes.models, methods=["GET"], response_model=None)
    app.add_api_route("/v1/models/{name:path}", routes.model, methods=["GET"], response_model=None)
    return app


class _Routes:
    def __init__(self, service: Service, keys: TokenFile | None) -> None:
        self._service = service
        self._keys = keys
        self._gate = Gate(service)

    async def completions(self, request: Request) -> Response:
        """POST /v1/completions."""
        self._open(request)
        body = parse_body(CompletionRequest, await self._read(request))
        check_model(body, self._model_name)
        raw = raw_prompts(body, self._service.settings.max_queued_requests)
        self._gate.check_room(len(raw), tier=body.tier)
        prompts = await encode_prompts(raw, self._service.tokenizer, self._context)
        return self._answer(request, body, prompts, "prompt", CompletionShape(*self._identity()))

    async def chat(self, request: Request) -> Response:
        """POST /v1/chat/completions."""
        self._open(request)
        body = parse_body(ChatRequest, await self._read(request))
        check_model(body, self._model_name)
        self._gate.check_room(1, tier=body.tier)
        prompt = await chat_prompt(body, self._service.tokenizer, self._context)
        return self._answer(request, body, [prompt], "messages", ChatShape(*self._identity()))

    async def models(self, request: Request) -> Response:
        """GET /v1/models."""
        self._check_key(request)
        return _json(ModelList(data=(self._card(),)))

    async def model(self, request: Request, name: str) -> Response:
        """GET /v1/models/NAME."""
        self._check_key(request)
        if name != self._model_name:
            raise ModelNotFoundError(
                f"the model {name[:100]!r} is not served here; {self._model_name!r} is",
                param="model",
            )
        return _json(self._card())

    @property
    def _model_name(self) -> str:
        return self._service.settings.model_name

    @property
    def _context(self) -> int:
        return self._service.config.max_request_tokens

    def _open(self, request: Request) -> None:
        self._check_key(request)
        self._gate.check_open()

    def _check_key(self, request: Request) -> None:
        if self._keys is None:
            return
        if not self._keys.accepts(bearer_token(request.headers.get("authorization"))):
            raise UnauthorizedError("the API key is missing or wrong")

    async def _read(self, request: Request) -> bytes:
        settings = self._service.settings
        return await read_body(request, settings.max_body_bytes, settings.body_deadline_seconds)

    def _identity(self) -> tuple[str, int, str]:
        return uuid.uuid4().hex, self._service.wall_clock(), self._model_name

    def _card(self) -> ModelCard:
        return ModelCard(
            id=self._model_name,
            created=self._service.created,
            max_model_len=self._service.config.max_request_tokens,
        )

    def _answer(
        self,
        request: Request,
        body: SamplingFields,
        prompts: Sequence[TokenIds],
        param: str,
        shape: Shape,
    ) -> Answer:
        check_ids(body.stop_token_ids or (), self._service.tokenizer.vocab_size, "stop_token_ids")
        for prompt in prompts:
            check_fits(prompt, self._context, param)
        state = request.scope["state"]
        call = Call(self._service, body, prompts, state["received_at"], state["request_id"])
        if body.stream:
            return EventStream(call, shape, with_usage=body.include_usage)
        return WholeAnswer(call, shape)


def _json(body: ModelCard | ModelList) -> Response:
    return Response(msgspec.json.encode(body), media_type="application/json")
