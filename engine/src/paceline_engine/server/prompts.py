"""From checked bodies to token ids that fit the engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from paceline_engine.server.chat_fields import Message, TemplateFields
from paceline_engine.server.choices import BadWords, Prompt, TokenIds
from paceline_engine.server.errors import (
    BadRequestError,
    ContextLengthError,
    ModelNotFoundError,
)
from paceline_engine.server.text_extent import bytes_of, exceeds
from paceline_engine.server.wire import CompletionRequest
from paceline_engine.tokenizer import Tokenizer, TokenizerError

MAX_BAD_WORD_TOKENS: Final = 4096
LONG_TEXT_CHARS: Final = 8192  # of a call; from here on a thread tokenises, streams go on
MOST_LONG: Final = 2  # calls with long texts at a time: a tokenizer takes 400 bytes for a token
_LONG_TEXTS: Final = ThreadPoolExecutor(MOST_LONG, "long-texts")
TEMPLATE_CONTEXTS: Final = 4
_Encoded = TypeVar("_Encoded")


def check_model(asked: str | None, model_name: str) -> None:
    """Whether a body names the served model, or none.

    Raises:
        ModelNotFoundError: It names another.
    """
    if asked is not None and asked != model_name:
        raise ModelNotFoundError(
            f"the model {asked[:100]!r} is not served here; {model_name!r} is", param="model"
        )


def raw_prompts(body: CompletionRequest) -> Sequence[str | TokenIds]:
    """The prompts of a call, each as text or as token ids.

    Raises:
        BadRequestError: There are none.
    """
    prompts = body.prompts()
    if not prompts:
        raise BadRequestError("prompt: must hold at least one token", param="prompt")
    return prompts


async def encode_prompts(
    prompts: Sequence[str | TokenIds],
    tokenizer: Tokenizer,
    limit: int | None,
    *,
    add_special: bool = True,
) -> list[Prompt]:
    """Token ids of each prompt.

    Args:
        prompts: Texts and token ids.
        tokenizer: The model's.
        limit: Prompt plus output tokens of one request at most; None where it need not run.
        add_special: Whether a begin-of-sequence token may be put before a text.

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

    def encode_one(prompt: str | TokenIds) -> Prompt:
        if isinstance(prompt, str):
            ids = tokenizer.encode(prompt, add_special=add_special)
            return Prompt(token_ids=tuple(ids), text=prompt)
        return Prompt(token_ids=prompt)

    return await _run(
        lambda: [encode_one(prompt) for prompt in prompts],
        is_long=exceeds(texts, LONG_TEXT_CHARS),
        param="prompt",
    )


async def chat_prompt(
    body: TemplateFields, messages: Sequence[Message], tokenizer: Tokenizer, limit: int | None
) -> Prompt:
    """Token ids of a chat.

    Args:
        body: How the template is to write it.
        messages: The chat.
        tokenizer: The model's.
        limit: Prompt plus output tokens of one request at most; None where it need not run.

    Raises:
        BadRequestError: The template rejects the messages or knows no tools, or the text
            cannot be encoded.
        ContextLengthError: They cannot fit, whatever their tokens.
    """
    if body.offers_tools and not tokenizer.template_uses_tools:
        raise BadRequestError(
            "tools: this model's chat template does not mention tools, so the model would never "
            'hear of them; leave them out or set tool_choice to "none"',
            param="tools",
            code="unsupported",
        )
    contents = [each.text() for each in messages]
    _check_bytes(contents, tokenizer, limit, "messages")
    everything = (messages, body.tools, body.chat_template_kwargs)

    def encode() -> Prompt:
        if limit is not None:
            _check_everything(everything, tokenizer, limit)
        ids = tokenizer.apply_chat_template(
            [each.as_given() for each in messages],
            add_generation_prompt=body.opens_answer,
            continue_final_message=bool(body.continue_final_message),
            tools=body.offered_tools(),
            variables=body.chat_template_kwargs or {},
        )
        return Prompt(token_ids=tuple(ids))

    return await _run(encode, is_long=exceeds(everything, LONG_TEXT_CHARS), param="messages")


async def encode_bad_words(words: Sequence[str], tokenizer: Tokenizer) -> BadWords:
    """Token sequences that write the words, at a text's begin and after a space.

    Raises:
        BadRequestError: A word that cannot be encoded, or too many tokens in all.
    """
    found = await _run(
        lambda: tuple(dict.fromkeys(ids for word in words for ids in _spellings(word, tokenizer))),
        is_long=exceeds(words, LONG_TEXT_CHARS),
        param="bad_words",
    )
    if (count := sum(map(len, found))) > MAX_BAD_WORD_TOKENS:
        raise BadRequestError(
            f"bad_words: {count} tokens, counting each word as written and with a space before; "
            f"the limit is {MAX_BAD_WORD_TOKENS} in all",
            param="bad_words",
            code="invalid_value",
        )
    return found


def _spellings(word: str, tokenizer: Tokenizer) -> list[TokenIds]:
    """As it stands, and with a space before it unless the first is its tail anyhow."""
    bare = word.lstrip() or word

    def encode(text: str) -> TokenIds:
        return tuple(tokenizer.encode(text, parse_special=False, add_special=False))

    plain, spaced = encode(bare), encode(" " + bare)
    if not plain:
        raise BadRequestError("bad_words: a word has no tokens", param="bad_words")
    return [plain] if spaced[-len(plain) :] == plain else [plain, spaced]


async def _run(encode: Callable[[], _Encoded], *, is_long: bool, param: str) -> _Encoded:
    """Encodes all that one call brings: here if it is short, in a thread if it is long."""
    try:
        if not is_long:
            return encode()
        return await asyncio.get_running_loop().run_in_executor(_LONG_TEXTS, encode)
    except TokenizerError as error:
        raise BadRequestError(f"{param}: {error}", param=param) from error


def _check_bytes(texts: Sequence[str], tokenizer: Tokenizer, limit: int | None, param: str) -> None:
    """Refuses, without encoding it, what has too many bytes for any tokens to fit."""
    if limit is None:
        return
    least = least_tokens(texts, tokenizer)
    if least > limit:
        raise ContextLengthError.of(least, limit, param, " at least")


def _check_everything(texts: object, tokenizer: Tokenizer, limit: int) -> None:
    """Bounds what a template is given; some of it a template may leave out, so not by `limit`."""
    most, least = TEMPLATE_CONTEXTS * limit, least_tokens(texts, tokenizer)
    if least > most:
        raise ContextLengthError(
            f"messages, tools and variables have {least} tokens at least, and all that a chat "
            f"template is given may have {most}; shorten it",
            param="messages",
        )


def least_tokens(texts: object, tokenizer: Tokenizer) -> int:
    """Tokens that all texts in a value have at least, by their bytes alone."""
    return -(-bytes_of(texts) // tokenizer.longest_token_bytes)


def check_ids(token_ids: Sequence[int], vocab_size: int, param: str) -> None:
    """Whether each id is in the vocabulary.

    Raises:
        BadRequestError: One is not.
    """
    if token_ids and not (min(token_ids) >= 0 and max(token_ids) < vocab_size):
        raise BadRequestError(
            f"{param}: token ids must lie within 0 to {vocab_size - 1}", param=param
        )


def check_fits(prompt: Prompt, limit: int, param: str) -> None:
    """Whether the prompt leaves room for one token.

    Args:
        prompt: To be run.
        limit: Prompt plus output tokens of one request at most.
        param: Field to name.

    Raises:
        BadRequestError: It is empty.
        ContextLengthError: It does not fit.
    """
    length = len(prompt.token_ids)
    if not length:
        raise BadRequestError(f"{param}: must hold at least one token", param=param)
    if length >= limit:
        raise ContextLengthError.of(length, limit, param)
