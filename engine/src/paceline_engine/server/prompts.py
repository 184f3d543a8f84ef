"""From checked bodies to token ids that fit the engine."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from paceline_engine.server.errors import (
    BadRequestError,
    ContextLengthError,
    ModelNotFoundError,
)
from paceline_engine.server.sampling_fields import SamplingFields
from paceline_engine.server.wire import MAX_PROMPTS, ChatRequest, CompletionRequest
from paceline_engine.tokenizer import Tokenizer, TokenizerError

TokenIds = tuple[int, ...]
LONG_TEXT_CHARS: Final = 8192  # from here on a thread tokenises, so that streams go on


def check_model(body: SamplingFields, model_name: str) -> None:
    """Whether the body names the served model, or none.

    Raises:
        ModelNotFoundError: It names another.
    """
    if body.model not in (None, model_name):
        raise ModelNotFoundError(
            f"the model {body.model[:100]!r} is not served here; {model_name!r} is", param="model"
        )


async def completion_prompts(
    body: CompletionRequest, tokenizer: Tokenizer, max_prompts: int
) -> list[TokenIds]:
    """Token ids of each prompt.

    Args:
        body: The checked body.
        tokenizer: The model's.
        max_prompts: Prompts that may wait at all; `MAX_PROMPTS` holds too.

    Raises:
        BadRequestError: Too many prompts, text that cannot be encoded, or unknown ids.
    """
    prompts = body.prompts()
    if not prompts:
        raise BadRequestError("prompt: must hold at least one token", param="prompt")
    limit = min(MAX_PROMPTS, max_prompts)
    if len(prompts) > limit:
        raise BadRequestError(
            f"prompt: {len(prompts)} prompts in one call; the limit is {limit}",
            param="prompt",
        )
    return [await _encode(prompt, tokenizer) for prompt in prompts]


async def _encode(prompt: str | TokenIds, tokenizer: Tokenizer) -> TokenIds:
    if not isinstance(prompt, str):
        check_ids(prompt, tokenizer.vocab_size, "prompt")
        return prompt
    try:
        if len(prompt) < LONG_TEXT_CHARS:
            return tuple(tokenizer.encode(prompt))
        return tuple(await asyncio.to_thread(tokenizer.encode, prompt))
    except TokenizerError as error:
        raise BadRequestError(f"prompt: {error}", param="prompt") from error


async def chat_prompt(body: ChatRequest, tokenizer: Tokenizer) -> TokenIds:
    """Token ids of a chat.

    Raises:
        BadRequestError: The template rejects the messages, or they cannot be encoded.
    """
    messages = [{"role": each.role, "content": each.text()} for each in body.messages]
    try:
        if sum(len(each["content"]) for each in messages) < LONG_TEXT_CHARS:
            return tuple(tokenizer.apply_chat_template(messages))
        return tuple(await asyncio.to_thread(tokenizer.apply_chat_template, messages))
    except TokenizerError as error:
        raise BadRequestError(f"messages: {error}", param="messages") from error


def check_ids(token_ids: Sequence[int], vocab_size: int, param: str) -> None:
    """Whether each id is in the vocabulary.

    Raises:
        BadRequestError: One is not.
    """
    if token_ids and not (min(token_ids) >= 0 and max(token_ids) < vocab_size):
        raise BadRequestError(
            f"{param}: token ids must lie within 0 to {vocab_size - 1}", param=param
        )


def check_fits(prompt: TokenIds, limit: int, param: str) -> None:
    """Whether the prompt leaves room for one token.

    Args:
        prompt: Token ids.
        limit: Prompt plus output tokens of one request at most.
        param: Field to name.

    Raises:
        BadRequestError: It is empty.
        ContextLengthError: It does not fit.
    """
    if not prompt:
        raise BadRequestError(f"{param}: must hold at least one token", param=param)
    if len(prompt) >= limit:
        raise ContextLengthError(
            f"the context holds {limit} tokens, prompt and output together, and the prompt "
            f"has {len(prompt)}; shorten it to at most {limit - 1}",
            param=param,
        )
