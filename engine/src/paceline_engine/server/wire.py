"""Bodies of the OpenAI routes as pydantic models."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field, StrictInt
from typing_extensions import override

from paceline_engine.server.sampling_fields import SamplingFields

DEFAULT_COMPLETION_TOKENS = 16
MAX_PROMPTS = 256

Prompt = Annotated[str, Field()] | tuple[str, ...] | tuple[StrictInt, ...]
NestedPrompt = tuple[tuple[StrictInt, ...], ...]


class CompletionRequest(SamplingFields):
    """Body of POST /v1/completions."""

    prompt: Prompt | NestedPrompt

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
        if all(isinstance(part, int) for part in prompt):
            return (tuple(part for part in prompt if isinstance(part, int)),)
        return tuple(part for part in prompt if not isinstance(part, int))


class TextPart(BaseModel):
    """Text part of a message; other kinds are not served."""

    type: Literal["text"]
    text: str


class Message(BaseModel):
    """One turn of a chat."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | tuple[TextPart, ...] | None = None

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


class Usage(BaseModel):
    """Token counts of an answer, summed over its choices."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class TextChoice(BaseModel):
    """Choice of a completion, whole or one piece of it."""

    index: int
    text: str
    logprobs: None = None
    finish_reason: str | None = None


class Completion(BaseModel):
    """Answer of /v1/completions; also each of its stream's chunks."""

    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    choices: tuple[TextChoice, ...]
    service_tier: str = "default"
    usage: Usage | None = None


class AssistantMessage(BaseModel):
    """The whole answer of a chat."""

    role: Literal["assistant"] = "assistant"
    content: str
    refusal: None = None


class ChatChoice(BaseModel):
    """Choice of a chat."""

    index: int
    message: AssistantMessage
    logprobs: None = None
    finish_reason: str | None = None


class ChatCompletion(BaseModel):
    """Answer of /v1/chat/completions."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: tuple[ChatChoice, ...]
    service_tier: str = "default"
    usage: Usage | None = None


class ChatDelta(BaseModel):
    """Piece of a chat answer; the role comes with the first one."""

    content: str
    role: Literal["assistant"] | None = None


class ChatChunkChoice(BaseModel):
    """Choice in a chunk of a streamed chat."""

    index: int
    delta: ChatDelta
    logprobs: None = None
    finish_reason: str | None = None


class ChatChunk(BaseModel):
    """One chunk of a streamed chat."""

    id: str
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    created: int
    model: str
    choices: tuple[ChatChunkChoice, ...]
    service_tier: str = "default"
    usage: Usage | None = None


class ModelCard(BaseModel):
    """The served model."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "paceline"
    max_model_len: int


class ModelList(BaseModel):
    """Answer of GET /v1/models."""

    object: Literal["list"] = "list"
    data: tuple[ModelCard, ...]
