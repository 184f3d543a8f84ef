"""From checked bodies to token ids that fit the engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from paceline_engine.server.errors import (
    BadRequestError,
    ContextLengthError,
    ModelNotFoundError,
)
from paceline_engine.server.sampling_fields import SamplingFields
from paceline_engine.server.wire import MAX_PROMPTS, ChatRequest, CompletionRequest
from paceline_engine.tokenizer import Tokenizer, TokenizerError

TokenIds = tuple[int, ...]
LONG_TEXT_CHARS: Final = 8192  # of a call; from here on a thread tokenises, streams go on
_Encoded = TypeVar("_Encoded")


def check_model(body: SamplingFields, model_name: str) -> None:
    """Whether the body names the served model, or none.

    Raises:
        ModelNotFoundError: It names another.
    """
    if body.model not in (None, model_name):
        raise ModelNotFoundError(
            f"the model {body.model[:100]!r} is not served here; {model_name!r} is", param="model"
        )


def raw_prompts(body: CompletionRequest, max_prompts: int) -> Sequence[str | TokenIds]:
    """The prompts of a call, each as text or as token ids.

    Args:
        body: The checked body.
        max_prompts: Prompts that may wait at all; `MAX_PROMPTS` holds too.

    Raises:
        BadRequestError: None, or too many.
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
    return prompts


async def encode_prompts(
    prompts: Sequence[str | TokenIds], tokenizer: Tokenizer, limit: int
) -> list[TokenIds]:
    """Token ids of each prompt.

    Args:
        prompts: Texts and token ids.
        tokenizer: The model's.
        limit: Prompt plus output tokens of one request at most.

    Raises:
        BadRequestError: Text that cannot be encoded, or unknown ids.
        ContextLengthError: A text cannot fit, whatever its tokens.
    """
    texts = [prompt for prompt in prompts if isinstance(prompt, str)]
    for prompt in prompts:
        if isinstance(prompt, str):
            _check_bytes([prompt], tokenizer, limit, "prompt")
        else:
            check_ids(prompt, tokenizer.vocab_size, "prompt")

    def encode() -> list[TokenIds]:
        return [
            tuple(tokenizer.encode(prompt)) if isinstance(prompt, str) else prompt
            for prompt in prompts
        ]

    return await _run(encode, sum(map(len, texts)), "prompt")


async def chat_prompt(body: ChatRequest, tokenizer: Tokenizer, limit: int) -> TokenIds:
    """Token ids of a chat.

    Args:
        body: The checked body.
        tokenizer: The model's.
        limit: Prompt plus output tokens of one request at most.

    Raises:
        BadRequestError: The template rejects the messages, or they cannot be encoded.
        ContextLengthError: They cannot fit, whatever their tokens.
    """
    messages = [{"role": each.role, "content": each.text()} for each in body.messages]
    contents = [each["content"] for each in messages]
    _check_bytes(contents, tokenizer, limit, "messages")
    return await _run(
        lambda: tuple(tokenizer.apply_chat_template(messages)),
        sum(map(len, contents)),
        "messages",
    )


async def _run(encode: Callable[[], _Encoded], chars: int, param: str) -> _Encoded:
    """Encodes all that one call brings: here if it is short, in a thread if it is long."""
    try:
        return encode() if chars < LONG_TEXT_CHARS else await asyncio.to_thread(encode)
    except TokenizerError as error:
        raise BadRequestError(f"{param}: {error}", param=param) from error


def _check_bytes(texts: Sequence[str], tokenizer: Tokenizer, limit: int, param: str) -> None:
    """Refuses, without encoding it, what has too many bytes for any tokens to fit."""
    num_bytes = sum(len(text.encode(errors="surrogatepass")) for text in texts)
    least_tokens = -(-num_bytes // tokenizer.longest_token_bytes)
    if least_tokens > limit:
        raise ContextLengthError(
            f"the context holds {limit} tokens, prompt and output together, and the prompt "
            f"has {least_tokens} at least; shorten it to at most {limit - 1}",
            param=param,
        )


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
