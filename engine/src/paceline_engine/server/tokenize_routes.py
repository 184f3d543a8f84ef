"""/tokenize and /detokenize: what the model's tokenizer does, without running the model."""

from __future__ import annotations

import asyncio

from fastapi import Request
from starlette.responses import Response

from paceline_engine.server.api_port import ApiPort, as_json
from paceline_engine.server.prompts import (
    LONG_TEXT_CHARS,
    chat_prompt,
    check_ids,
    check_model,
    encode_prompts,
)
from paceline_engine.server.token_texts import TokenTexts
from paceline_engine.server.tokenize_wire import (
    Detokenized,
    DetokenizeRequest,
    Tokenized,
    TokenizeRequest,
)


class TokenizeRoutes:
    """The two routes.

    Args:
        port: Key, body, tokenizer.
    """

    def __init__(self, port: ApiPort) -> None:
        self._port = port

    async def tokenize(self, request: Request) -> Response:
        """POST /tokenize."""
        self._port.check_key(request)
        body = await self._port.read(TokenizeRequest, request)
        check_model(body.model, self._port.model_name)
        ids = await self._ids(body)
        texts = TokenTexts(self._port.service.tokenizer)
        shown = tuple(map(texts.text, ids)) if body.return_token_strs else None
        return as_json(
            Tokenized(
                count=len(ids), max_model_len=self._port.context, tokens=ids, token_strs=shown
            )
        )

    async def detokenize(self, request: Request) -> Response:
        """POST /detokenize."""
        self._port.check_key(request)
        body = await self._port.read(DetokenizeRequest, request)
        check_model(body.model, self._port.model_name)
        tokenizer = self._port.service.tokenizer
        check_ids(body.tokens, tokenizer.vocab_size, "tokens")
        if len(body.tokens) < LONG_TEXT_CHARS:
            text = tokenizer.decode(body.tokens, skip_special=False)
        else:
            text = await asyncio.to_thread(tokenizer.decode, body.tokens, skip_special=False)
        return as_json(Detokenized(prompt=text))

    async def _ids(self, body: TokenizeRequest) -> tuple[int, ...]:
        tokenizer = self._port.service.tokenizer
        if body.messages is not None:
            prompt = await chat_prompt(body, body.messages, tokenizer, limit=None)
            return prompt.token_ids
        add_special = body.add_special_tokens is not False
        texts = [body.prompt or ""]
        prompts = await encode_prompts(texts, tokenizer, limit=None, add_special=add_special)
        return prompts[0].token_ids
