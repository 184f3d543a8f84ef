"""Bodies that the OpenAI routes take, as pydantic models; `answer_wire` has the answers."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Discriminator, Field, StrictInt, Tag
from typing_extensions import override

from paceline_engine.server.sampling_fields import SamplingFields

DEFAULT_COMPLETION_TOKENS = 16
MAX_PROMPTS = 256

TokenIds = tuple[StrictInt, ...]


def _prompt_form(value: object) -> str:
    """Form of a prompt by its first element: trying all forms costs too much on long ones."""
    if not isinstance(value, list | tuple):
        return "text"
    if value and isinstance(value[0], list | tuple):
        return "lists of ids"
    is_text = not value or isinstance(value[0], str)
    return "list of texts" if is_text else "list of ids"


Prompt = Annotated[
    Annotated[str, Tag("text")]
    | Annotated[tuple[str, ...], Tag("list of texts")]
    | Annotated[TokenIds, Tag("list of ids")]
    | Annotated[tuple[TokenIds, ...], Tag("lists of ids")],
    Discriminator(_prompt_form),
]


class CompletionRequest(SamplingFields):
    """Body of POST /v1/completions."""

    prompt: Prompt

    @property
    @override
    def output_limit(self) -> int | None:
        """OpenAI's default of 16 where the caller gives none."""
        return self.max_tokens or DEFAULT_COMPLETION_TOKENS

    def prompts(self) -> tuple[str | tuple[int, ...], ...]:
        """The prompts one by one: text or token ids."""
        prompt = self.prompt
        if isinstance(prompt, str):
            return (prompt,)
        ids = tuple(part for part in prompt if isinstance(part, int))
        return (ids,) if ids else tuple(part for part in prompt if not isinstance(part, int))


class TextPart(BaseModel):
    """Text part of a message; other kinds are not served."""

    type: Literal["text"]
    text: str


def _content_form(value: object) -> str:
    return "list of parts" if isinstance(value, list | tuple) else "text"


Content = Annotated[
    Annotated[str | None, Tag("text")] | Annotated[tuple[TextPart, ...], Tag("list of parts")],
    Discriminator(_content_form),
]


class Message(BaseModel):
    """One turn of a chat."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Content = None

    def text(self) -> str:
        """Content as one string."""
        if self.content is None or isinstance(self.content, str):
            return self.content or ""
        return "".join(part.text for part in self.content)


class ChatRequest(SamplingFields):
    """Body of POST /v1/chat/completions."""

    messages: Annotated[tuple[Message, ...], Field(min_length=1, max_length=4096)]
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None

    @property
    @override
    def output_limit(self) -> int | None:
        """`max_completion_tokens` wins over the older name."""
        return self.max_completion_tokens or self.max_tokens
