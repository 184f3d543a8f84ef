"""Bodies that the OpenAI routes give, as msgspec structs: a chunk is written for each token.

Fields that are `UNSET` are left out, those that are None are null, as OpenAI's are.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Token counts of an answer, summed over its choices."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class TextChoice(msgspec.Struct, frozen=True, kw_only=True):
    """Choice of a completion, whole or one piece of it."""

    index: int
    text: str
    logprobs: None = None
    finish_reason: str | None = None


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of /v1/completions; also each of its stream's chunks."""

    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    choices: tuple[TextChoice, ...]
    service_tier: str = "default"
    usage: Usage | UnsetType | None = UNSET


class AssistantMessage(msgspec.Struct, frozen=True, kw_only=True):
    """The whole answer of a chat."""

    role: Literal["assistant"] = "assistant"
    content: str
    refusal: None = None


class ChatChoice(msgspec.Struct, frozen=True, kw_only=True):
    """Choice of a chat."""

    index: int
    message: AssistantMessage
    logprobs: None = None
    finish_reason: str | None = None


class ChatCompletion(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of /v1/chat/completions."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: tuple[ChatChoice, ...]
    service_tier: str = "default"
    usage: Usage


class ChatDelta(msgspec.Struct, frozen=True, kw_only=True):
    """Piece of a chat answer; the role comes with the first one."""

    role: Literal["assistant"] | UnsetType = UNSET
    content: str


class ChatChunkChoice(msgspec.Struct, frozen=True, kw_only=True):
    """Choice in a chunk of a streamed chat."""

    index: int
    delta: ChatDelta
    logprobs: None = None
    finish_reason: str | None = None


class ChatChunk(msgspec.Struct, frozen=True, kw_only=True):
    """One chunk of a streamed chat."""

    id: str
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    created: int
    model: str
    choices: tuple[ChatChunkChoice, ...]
    service_tier: str = "default"
    usage: Usage | UnsetType | None = UNSET


class ModelCard(msgspec.Struct, frozen=True, kw_only=True):
    """The served model."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "paceline"
    max_model_len: int


class ModelList(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of GET /v1/models."""

    object: Literal["list"] = "list"
    data: tuple[ModelCard, ...]
