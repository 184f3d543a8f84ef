"""Bodies of /tokenize and /detokenize, as vLLM's."""

from __future__ import annotations

from typing import Annotated, Any, Final, Self

import msgspec
from msgspec import UNSET, UnsetType
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    model_validator,
)

from paceline_engine.server.chat_fields import Messages, TemplateFields
from paceline_engine.server.errors import ContextLengthError
from paceline_engine.server.known_fields import CONTEXT_TOKENS, contradiction, too_long

CONTEXTS_TOLD: Final = 4
LEAST_LIMIT_TOKENS: Final = 65_536


def _one_of_two(schema: dict[str, Any]) -> None:
    schema["oneOf"] = [{"required": ["prompt"]}, {"required": ["messages"]}]
    schema["properties"]["prompt"] = {"type": "string"}
    messages = schema["properties"]["messages"]
    schema["properties"]["messages"] = messages["anyOf"][0]


class TokenizeRequest(TemplateFields):
    """Body of POST /tokenize: a plain prompt, or a chat."""

    model_config = ConfigDict(json_schema_extra=_one_of_two)

    model: str | None = None
    prompt: str | None = None
    messages: Messages | None = None
    add_special_tokens: bool | None = None
    return_token_strs: bool | None = None

    @model_validator(mode="after")
    def check_source(self) -> Self:
        """Refuses neither and both, and what goes with one only."""
        if (self.prompt is None) is (self.messages is None):
            raise contradiction("prompt", "give either prompt or messages")
        if self.messages is not None and self.add_special_tokens:
            raise contradiction("add_special_tokens", "a chat has those of its template alone")
        return self


def most_ids(context_tokens: int) -> int:
    """Tokens that one call may ask about.

    Args:
        context_tokens: Prompt plus output tokens of one request at most.
    """
    return max(CONTEXTS_TOLD * context_tokens, LEAST_LIMIT_TOKENS)


def check_count(tokens: int, context_tokens: int, param: str, least: str = "") -> None:
    """Whether one call may ask about so many tokens.

    Args:
        tokens: How many.
        context_tokens: Prompt plus output tokens of one request at most.
        param: Field to name.
        least: " at least" where there may be more.

    Raises:
        ContextLengthError: It may not.
    """
    limit = most_ids(context_tokens)
    if tokens > limit:
        raise ContextLengthError(
            f"{param}: {tokens} tokens{least}, and one call may ask about {limit}; "
            "send it in parts",
            param=param,
        )


def _bounded(value: object, info: ValidationInfo) -> object:
    """Refuses too many ids before each is looked at."""
    if not isinstance(value, list):
        return value
    context_tokens = (info.context or {}).get(CONTEXT_TOKENS)
    if context_tokens is not None:
        try:
            check_count(len(value), context_tokens, "tokens")
        except ContextLengthError as refusal:
            raise too_long(refusal) from refusal
    return tuple(value)


class DetokenizeRequest(BaseModel):
    """Body of POST /detokenize."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    model: str | None = None
    tokens: Annotated[
        tuple[Annotated[int, Field(ge=0)], ...], Field(fail_fast=True), BeforeValidator(_bounded)
    ]


class Tokenized(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of /tokenize."""

    count: int
    max_model_len: int
    tokens: tuple[int, ...]
    token_strs: tuple[str, ...] | UnsetType | None = UNSET


class Detokenized(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of /detokenize."""

    prompt: str
