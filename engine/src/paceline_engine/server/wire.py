"""Bodies that the OpenAI routes take, as pydantic models; `answer_wire` has the answers."""

from __future__ import annotations

from typing import Annotated, Any, Final, Self

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    StrictInt,
    Tag,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)
from typing_extensions import override

from paceline_engine.server.chat_fields import ChatFields
from paceline_engine.server.errors import ContextLengthError
from paceline_engine.server.known_fields import CONTEXT_TOKENS, contradiction, too_long
from paceline_engine.server.sampling_fields import MAX_CHOICES, SamplingFields, TopLogprobs

DEFAULT_COMPLETION_TOKENS: Final = 16
MAX_PROMPTS: Final = 256

TokenIds = Annotated[tuple[StrictInt, ...], Field(fail_fast=True)]
_IDS_SCHEMA: Final[dict[str, Any]] = {
    "type": "array",
    "items": {"type": "integer", "minimum": 0},
    "minItems": 1,
}
_PROMPT_SCHEMA: Final[dict[str, Any]] = {
    "title": "Prompt",
    "description": f"A text, token ids, or a list of 1 to {MAX_PROMPTS} of either kind.",
    "anyOf": [
        {"type": "string", "minLength": 1},
        {
            "type": "array",
            "items": {"type": "string", "minLength": 1},
            "minItems": 1,
            "maxItems": MAX_PROMPTS,
        },
        _IDS_SCHEMA,
        {"type": "array", "items": _IDS_SCHEMA, "minItems": 1, "maxItems": MAX_PROMPTS},
    ],
}


def _prompt_form(value: object) -> str:
    """Form of a prompt by its first element: trying all forms costs too much on long ones."""
    if not isinstance(value, list | tuple):
        return "text"
    if value and isinstance(value[0], list | tuple):
        return "lists of ids"
    is_text = not value or isinstance(value[0], str)
    return "list of texts" if is_text else "list of ids"


def _bounded(value: object, info: ValidationInfo) -> object:
    """Refuses ids that cannot fit, and too many prompts, before each id is looked at."""
    if not isinstance(value, list):
        return value
    if _prompt_form(value) == "list of ids":
        _check_fits(len(value), info)
        return tuple(value)
    if len(value) > MAX_PROMPTS:
        reason = f"{len(value)} prompts in one call; the limit is {MAX_PROMPTS}"
        raise contradiction("prompt", reason)
    _check_fits(max((len(part) for part in value if isinstance(part, list)), default=0), info)
    return tuple(tuple(part) if isinstance(part, list) else part for part in value)


def _check_fits(tokens: int, info: ValidationInfo) -> None:
    limit = (info.context or {}).get(CONTEXT_TOKENS)
    if limit is not None and tokens >= limit:
        raise too_long(ContextLengthError.of(tokens, limit, "prompt"))


Prompt = Annotated[
    Annotated[str, Tag("text")]
    | Annotated[tuple[str, ...], Field(fail_fast=True), Tag("list of texts")]
    | Annotated[TokenIds, Tag("list of ids")]
    | Annotated[tuple[TokenIds, ...], Field(fail_fast=True), Tag("lists of ids")],
    Discriminator(_prompt_form),
    BeforeValidator(_bounded),
    WithJsonSchema(_PROMPT_SCHEMA),
]


class CompletionRequest(SamplingFields):
    """Body of POST /v1/completions."""

    prompt: Prompt
    best_of: Annotated[int, Field(ge=1, le=MAX_CHOICES)] | None = None
    echo: bool | None = None
    logprobs: TopLogprobs | None = None
    add_special_tokens: bool | None = None

    @model_validator(mode="after")
    def check_best_of(self) -> Self:
        """Refuses fields of this route that do not go together."""
        if self.candidates < self.choices:
            raise contradiction("best_of", f"must be at least n, which is {self.choices}")
        if self.candidates > self.choices and self.stream:
            raise contradiction("best_of", "above n cannot be streamed")
        if self.max_tokens == 0 and not self.echo:
            raise contradiction("max_tokens", "may be 0 only with echo: true")
        return self

    @property
    @override
    def candidates(self) -> int:
        return self.best_of or self.choices

    @property
    @override
    def shown_logprobs(self) -> int | None:
        return self.logprobs

    @property
    @override
    def echoes(self) -> bool:
        return bool(self.echo)

    @property
    @override
    def output_limit(self) -> int | None:
        """OpenAI's default of 16 where the caller gives none."""
        return DEFAULT_COMPLETION_TOKENS if self.max_tokens is None else self.max_tokens

    def prompts(self) -> tuple[str | tuple[int, ...], ...]:
        """The prompts one by one: text or token ids."""
        prompt = self.prompt
        if isinstance(prompt, str):
            return (prompt,)
        if prompt and isinstance(prompt[0], int):
            return (tuple(part for part in prompt if isinstance(part, int)),)
        return tuple(part for part in prompt if not isinstance(part, int))


class ChatRequest(SamplingFields, ChatFields):
    """Body of POST /v1/chat/completions."""

    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    logprobs: bool | None = None
    top_logprobs: TopLogprobs | None = None

    @model_validator(mode="after")
    def check_logprobs(self) -> Self:
        """Refuses fields of this route that do not go together."""
        if self.top_logprobs and not self.logprobs:
            raise contradiction("top_logprobs", "needs logprobs: true")
        return self

    @property
    @override
    def shown_logprobs(self) -> int | None:
        return (self.top_logprobs or 0) if self.logprobs else None

    @property
    @override
    def output_limit(self) -> int | None:
        """`max_completion_tokens` wins over the older name."""
        return self.max_completion_tokens or self.max_tokens
