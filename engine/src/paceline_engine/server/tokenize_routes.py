"""/tokenize and /detokenize: what the model's tokenizer does, without running the model."""

from __future__ import annotations

import asyncio

from fastapi import Request
from starlette.responses import Response

from paceline_engine.server.api_port import ApiPort, as_json
from paceline_engine.server.prompts import (
    LONG_TEXT_CHARS,
    MOST_LONG,
    chat_prompt,
    check_ids,
    check_model,
    encode_prompts,
    least_tokens,
)
from paceline_engine.server.text_extent import exceeds
from paceline_engine.server.token_texts import TokenTexts
from paceline_engine.server.tokenize_wire import (
    Detokenized,
    DetokenizeRequest,
    Tokenized,
    TokenizeRequest,
    check_count,
)
from paceline_engine.server.turns import Turns


class TokenizeRoutes:
    """The two routes.

    Args:
        port: Key, body, tokenizer.
    """

    def __init__(self, port: ApiPort) -> None:
        self._port = port
        self._long = Turns(MOST_LONG)

    async def tokenize(self, request: Request) -> Response:
        """POST /tokenize."""
        self._port.check_key(request)
        async with self._port.body(TokenizeRequest, request) as body:
            check_model(body.model, self._port.model_name)
            if not exceeds(body, LONG_TEXT_CHARS):
                self._check_extent(body)
                return self._told(body, await self._counted_ids(body))
            async with self._long.take(request) as turn:
                await asyncio.to_thread(self._check_extent, body)
                turn.check()
                ids = await self._counted_ids(body)
                turn.check()
                return await asyncio.to_thread(self._told, body, ids)

    async def detokenize(self, request: Request) -> Response:
        """POST /detokenize."""
        self._port.check_key(request)
        async with self._port.body(DetokenizeRequest, request) as body:
            check_model(body.model, self._port.model_name)
            check_ids(body.tokens, self._port.service.tokenizer.vocab_size, "tokens")
            if len(body.tokens) < LONG_TEXT_CHARS:
                return self._untold(body)
            async with self._long.take(request):
                return await asyncio.to_thread(self._untold, body)

    def _check_extent(self, body: TokenizeRequest) -> None:
        """Refuses what has too many tokens, by its bytes, before it is encoded."""
        param: str = "prompt"
        given: object = body.prompt
        if body.messages is not None:
            param, given = "messages", (body.messages, body.tools, body.chat_template_kwargs)
        least = least_tokens(given, self._port.service.tokenizer)
        check_count(least, self._port.context, param, " at least")

    async def _counted_ids(self, body: TokenizeRequest) -> tuple[int, ...]:
        ids = await self._ids(body)
        param = "prompt" if body.messages is None else "messages"
        check_count(len(ids), self._port.context, param)
        return ids

    async def _ids(self, body: TokenizeRequest) -> tuple[int, ...]:
        tokenizer = self._port.service.tokenizer
        if body.messages is not None:
            prompt = await chat_prompt(body, body.messages, tokenizer, limit=None)
            return prompt.token_ids
        add_special = body.add_special_tokens is not False
        texts = [body.prompt or ""]
        prompts = await encode_prompts(texts, tokenizer, limit=None, add_special=add_special)
        return prompts[0].token_ids

    def _told(self, body: TokenizeRequest, ids: tuple[int, ...]) -> Response:
        texts = TokenTexts(self._port.service.tokenizer)
        shown = tuple(map(texts.text, ids)) if body.return_token_strs else None
        return as_json(
            Tokenized(
                count=len(ids), max_model_len=self._port.context, tokens=ids, token_strs=shown
            )
        )

    def _untold(self, body: DetokenizeRequest) -> Response:
        text = self._port.service.tokenizer.decode(body.tokens, skip_special=False)
        return as_json(Detokenized(prompt=text))
