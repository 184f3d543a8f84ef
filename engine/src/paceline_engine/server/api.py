"""The API port: OpenAI's routes, and vLLM's beside them."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from typing import Final

from fastapi import FastAPI, Request
from starlette.responses import Response

from paceline_engine.server.access import TokenFile
from paceline_engine.server.answer import Answer, EventStream, WholeAnswer
from paceline_engine.server.api_document import describe
from paceline_engine.server.api_port import ApiPort, as_json
from paceline_engine.server.call import Call
from paceline_engine.server.caller import Caller, read_caller
from paceline_engine.server.choices import Prompt, check_output_scores, check_scored
from paceline_engine.server.echo import read_out
from paceline_engine.server.error_routes import bare_app
from paceline_engine.server.errors import ModelNotFoundError
from paceline_engine.server.gate import Gate
from paceline_engine.server.model_wire import ModelCard, ModelList, model_card
from paceline_engine.server.prompts import (
    chat_prompt,
    check_fits,
    check_ids,
    check_model,
    encode_bad_words,
    encode_prompts,
    raw_prompts,
)
from paceline_engine.server.sampling_fields import SERVED_TIERS, SamplingFields
from paceline_engine.server.service import Service
from paceline_engine.server.shape import ChatShape, CompletionShape, Head, Shape, View
from paceline_engine.server.stop_automaton import StopAutomaton
from paceline_engine.server.token_texts import TokenTexts
from paceline_engine.server.tokenize_routes import TokenizeRoutes
from paceline_engine.server.wire import ChatRequest, CompletionRequest

TITLE: Final = "Paceline engine"


LONG_STOP_CHARS: Final = 2048
"""From here on a thread makes stop strings ready, as long as some steps, so that streams go on."""


async def stop_automaton(stops: Sequence[str]) -> StopAutomaton:
    """The automaton of a call's stop strings."""
    if sum(map(len, stops)) < LONG_STOP_CHARS:
        return StopAutomaton(stops)
    return await asyncio.to_thread(StopAutomaton, stops)


def create_api(service: Service, keys: TokenFile | None) -> FastAPI:
    """Builds the application of the API port.

    Args:
        service: What it serves.
        keys: API keys; None leaves it open.
    """
    app = bare_app(TITLE)
    port = ApiPort(service, keys)
    routes, tokenizing = _Routes(port), TokenizeRoutes(port)
    for path, method, endpoint in (
        ("/v1/completions", "POST", routes.completions),
        ("/v1/chat/completions", "POST", routes.chat),
        ("/v1/models", "GET", routes.models),
        ("/v1/models/{name:path}", "GET", routes.model),
        ("/tokenize", "POST", tokenizing.tokenize),
        ("/detokenize", "POST", tokenizing.detokenize),
        ("/openapi.json", "GET", routes.document),
    ):
        app.add_api_route(path, endpoint, methods=[method], response_model=None)
    return app


class _Routes:
    def __init__(self, port: ApiPort) -> None:
        self._port = port
        self._service = port.service
        self._gate = Gate(port.service)
        self._texts = TokenTexts(port.service.tokenizer)
        self._document: bytes | None = None

    async def completions(self, request: Request) -> Response:
        """POST /v1/completions."""
        self._open(request)
        async with self._port.body(CompletionRequest, request, self._gate.redirect_unread) as body:
            caller = self._check(request, body)
            raw = raw_prompts(body)
            self._gate.check_room(len(raw), body.candidates, body.tier)
            prompts = await encode_prompts(
                raw,
                self._service.tokenizer,
                self._port.context,
                add_special=body.add_special_tokens is not False,
            )
            shape = CompletionShape(self._head(body), self._view(body))
            return await self._answer(request, caller, body, prompts, shape)

    async def chat(self, request: Request) -> Response:
        """POST /v1/chat/completions."""
        self._open(request)
        async with self._port.body(ChatRequest, request, self._gate.redirect_unread) as body:
            caller = self._check(request, body)
            self._gate.check_room(1, body.candidates, body.tier)
            prompt = await chat_prompt(
                body, body.messages, self._service.tokenizer, self._port.context
            )
            shape = ChatShape(self._head(body), self._view(body))
            return await self._answer(request, caller, body, [prompt], shape)

    async def models(self, request: Request) -> Response:
        """GET /v1/models."""
        self._port.check_key(request)
        return as_json(ModelList(data=(self._card(),)))

    async def model(self, request: Request, name: str) -> Response:
        """GET /v1/models/NAME."""
        self._port.check_key(request)
        if name != self._port.model_name:
            raise ModelNotFoundError(
                f"the model {name[:100]!r} is not served here; {self._port.model_name!r} is",
                param="model",
            )
        return as_json(self._card())

    async def document(self) -> Response:
        """GET /openapi.json, for anybody: it says nothing of who calls or what is served."""
        if self._document is None:
            self._document = describe(TITLE, self._service.tokenizer.vocab_size)
        return Response(self._document, media_type="application/json")

    def _open(self, request: Request) -> None:
        self._port.check_key(request)
        self._gate.check_open()

    def _check(self, request: Request, body: SamplingFields) -> Caller:
        """Checks what needs the model's name or vocabulary, or stands in headers."""
        check_model(body.model, self._port.model_name)
        vocab_size = self._service.tokenizer.vocab_size
        check_ids(body.stop_token_ids or (), vocab_size, "stop_token_ids")
        check_ids([int(token_id) for token_id in body.logit_bias or {}], vocab_size, "logit_bias")
        return read_caller(
            request.headers,
            request.scope["state"]["request_id"],
            trust_tenant=self._service.settings.trust_tenant_header,
            cache_salt=body.cache_salt,
            pressure=request.scope["state"]["pressure"],
        )

    def _head(self, body: SamplingFields) -> Head:
        return Head(
            answer_id=uuid.uuid4().hex,
            created=self._service.wall_clock(),
            model=self._port.model_name,
            service_tier=SERVED_TIERS[body.tier],
        )

    def _view(self, body: SamplingFields) -> View:
        return View(
            texts=self._texts,
            logprobs=body.shown_logprobs,
            prompt_logprobs=body.prompt_logprobs,
            token_ids=bool(body.return_token_ids),
        )

    def _card(self) -> ModelCard:
        return model_card(self._port.model_name, self._service.created, self._port.context)

    async def _answer(
        self,
        request: Request,
        caller: Caller,
        body: SamplingFields,
        prompts: Sequence[Prompt],
        shape: Shape,
    ) -> Answer:
        is_chat = isinstance(body, ChatRequest)
        for prompt in prompts:
            check_fits(prompt, self._port.context, "messages" if is_chat else "prompt")
        check_scored(body, prompts, copies=1 if is_chat else body.choices)
        check_output_scores(body, prompts, self._port.context)
        bad_words = await encode_bad_words(body.bad_words or (), self._service.tokenizer)
        if body.echoes:
            scored = body.needed_prompt_logprobs() is not None
            prompts = await read_out(prompts, self._service.tokenizer, scored=scored)
        received_at = request.scope["state"]["received_at"]
        call = Call(
            self._service,
            body,
            prompts,
            received_at,
            caller=caller,
            bad_words=bad_words,
            stops=await stop_automaton(body.stop),
        )
        if not body.stream:
            return WholeAnswer(call, shape)
        return EventStream(
            call, shape, with_usage=body.include_usage, continuous_usage=body.continuous_usage
        )
