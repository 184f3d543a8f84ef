"""Bodies that the OpenAI routes give, as msgspec structs: a chunk is written for each token.

Fields that are `UNSET` are left out, those that are None are null, as OpenAI's are.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType


class PromptTokensDetails(msgspec.Struct, frozen=True, kw_only=True):
    """Where prompt tokens came from."""

    cached_tokens: int


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Token counts of an answer: each prompt once, the outputs of all its choices."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails | UnsetType = UNSET


class PromptLogprob(msgspec.Struct, frozen=True, kw_only=True):
    """A token at a place of the prompt, as vLLM writes it."""

    logprob: float
    rank: int
    decoded_token: str


PromptLogprobs = tuple[dict[str, PromptLogprob] | None, ...]
"""For each prompt token: id -> log-probability, of itself and of the best; first null."""


class TextLogprobs(msgspec.Struct, frozen=True, kw_only=True):
    """Log-probabilities of a completion, in columns with a place for each token."""

    text_offset: tuple[int, ...]
    token_logprobs: tuple[float | None, ...]
    tokens: tuple[str, ...]
    top_logprobs: tuple[dict[str, float] | None, ...]


class TextChoice(msgspec.Struct, frozen=True, kw_only=True):
    """Choice of a completion, whole or one piece of it."""

    index: int
    text: str
    logprobs: TextLogprobs | None = None
    finish_reason: str | None = None
    stop_reason: str | int | None = None
    token_ids: tuple[int, ...] | UnsetType = UNSET
    prompt_token_ids: tuple[int, ...] | UnsetType = UNSET
    prompt_logprobs: PromptLogprobs | UnsetType = UNSET


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of /v1/completions; also each of its stream's chunks."""

    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    choices: tuple[TextChoice, ...]
    service_tier: str = "default"
    usage: Usage | UnsetType | None = UNSET


class ChatLogprob(msgspec.Struct, frozen=True, kw_only=True):
    """A token with its log-probability; `bytes` are what it adds to the answer's UTF-8."""

    token: str
    logprob: float
    bytes: tuple[int, ...]


class ChatTokenLogprob(ChatLogprob, frozen=True, kw_only=True):
    """A token of the answer, and the best ones at its place."""

    top_logprobs: tuple[ChatLogprob, ...]


class ChatLogprobs(msgspec.Struct, frozen=True, kw_only=True):
    """Log-probabilities of a chat answer."""

    content: tuple[ChatTokenLogprob, ...]
    refusal: None = None


class AssistantMessage(msgspec.Struct, frozen=True, kw_only=True):
    """The whole answer of a chat."""

    role: Literal["assistant"] = "assistant"
    content: str
    refusal: None = None


class ChatChoice(msgspec.Struct, frozen=True, kw_only=True):
    """Choice of a chat."""

    index: int
    message: AssistantMessage
    logprobs: ChatLogprobs | None = None
    finish_reason: str | None = None
    stop_reason: str | int | None = None
    token_ids: tuple[int, ...] | UnsetType = UNSET


class ChatCompletion(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of /v1/chat/completions."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: tuple[ChatChoice, ...]
    service_tier: str = "default"
    usage: Usage
    prompt_token_ids: tuple[int, ...] | UnsetType = UNSET
    prompt_logprobs: PromptLogprobs | UnsetType = UNSET


class ChatDelta(msgspec.Struct, frozen=True, kw_only=True):
    """Piece of a chat answer; the role comes with the first one."""

    role: Literal["assistant"] | UnsetType = UNSET
    content: str


class ChatChunkChoice(msgspec.Struct, frozen=True, kw_only=True):
    """Choice in a chunk of a streamed chat."""

    index: int
    delta: ChatDelta
    logprobs: ChatLogprobs | None = None
    finish_reason: str | None = None
    stop_reason: str | int | None = None
    token_ids: tuple[int, ...] | UnsetType = UNSET


class ChatChunk(msgspec.Struct, frozen=True, kw_only=True):
    """One chunk of a streamed chat."""

    id: str
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    created: int
    model: str
    choices: tuple[ChatChunkChoice, ...]
    service_tier: str = "default"
    usage: Usage | UnsetType | None = UNSET
    prompt_token_ids: tuple[int, ...] | UnsetType = UNSET
