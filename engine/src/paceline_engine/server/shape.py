"""How the two generating routes write an answer: whole, in chunks, and its usage."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar

import msgspec
from msgspec import UNSET, UnsetType
from typing_extensions import override

from paceline_engine.server.answer_wire import (
    AssistantMessage,
    ChatChoice,
    ChatChunk,
    ChatChunkChoice,
    ChatCompletion,
    ChatDelta,
    ChatLogprobs,
    Completion,
    PromptLogprobs,
    TextChoice,
    TextLogprobs,
    Usage,
)
from paceline_engine.server.logprob_json import (
    EchoedColumns,
    chat_array,
    drawn_columns,
    echoed_columns,
    prompt_array,
)
from paceline_engine.server.piece import Opening, Piece
from paceline_engine.server.token_texts import TokenTexts

ChunkUsage = Usage | UnsetType | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What every part of an answer says first.

    Attributes:
        answer_id: Unique part of the answer's id.
        created: Unix time in seconds.
        model: Name of the model.
        service_tier: OpenAI's name of the tier that served it.
    """

    answer_id: str
    created: int
    model: str
    service_tier: str = "default"


@dataclass(frozen=True, slots=True)
class _WrittenPrompt:
    opening: Opening  # held, so that its id stays its own
    echo: EchoedColumns | None
    scores: PromptLogprobs | None


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What is shown beside the text.

    Attributes:
        texts: Token texts.
        logprobs: Best tokens at each place of the output; None shows no log-probabilities.
        prompt_logprobs: The same for the prompt.
        token_ids: Whether token ids are shown.
    """

    texts: TokenTexts
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    token_ids: bool = False
    _written: dict[int, _WrittenPrompt] = field(default_factory=dict, init=False, repr=False)

    async def prepare(self, opening: Opening | None) -> None:
        """Writes the log-probabilities of a prompt, once for all choices that show them."""
        if opening is None or id(opening) in self._written:
            return
        echo, scores = None, None
        if self.logprobs is not None and opening.offsets:
            echo = await echoed_columns(self.texts, self.logprobs, opening)
        if self.prompt_logprobs is not None:
            scores = await prompt_array(self.texts, self.prompt_logprobs, opening)
        self._written[id(opening)] = _WrittenPrompt(opening, echo, scores)

    async def of_text(self, piece: Piece) -> TextLogprobs | None:
        """Log-probabilities of a completion's piece, an echoed prompt's first."""
        if self.logprobs is None:
            return None
        own = await drawn_columns(self.texts, self.logprobs, piece.scored)
        written = self._written.get(id(piece.opening))
        return written.echo.continued(own) if written and written.echo else own

    async def of_chat(self, piece: Piece) -> ChatLogprobs | None:
        """Log-probabilities of a chat's piece."""
        if self.logprobs is None:
            return None
        return await chat_array(self.texts, self.logprobs, piece.scored)

    def of_prompt(self, opening: Opening | None) -> PromptLogprobs | UnsetType:
        """Log-probabilities of the prompt."""
        written = self._written.get(id(opening))
        return UNSET if written is None or written.scores is None else written.scores

    def ids(self, piece: Piece) -> tuple[int, ...] | UnsetType:
        """Token ids of a piece."""
        return piece.token_ids if self.token_ids else UNSET

    def prompt_ids(self, opening: Opening | None) -> tuple[int, ...] | UnsetType:
        """Token ids of the prompt."""
        return opening.token_ids if self.token_ids and opening else UNSET


class Shape(Protocol):
    """Writes the JSON of one call's answer."""

    async def whole(self, choices: Sequence[Piece], usage: Usage) -> bytes:
        """The whole answer; the event loop gets its turns meanwhile."""
        ...

    async def chunk(self, index: int, piece: Piece, *, is_first: bool, usage: ChunkUsage) -> bytes:
        """One piece of a choice.

        Args:
            index: The choice.
            piece: What is new.
            is_first: Whether it is the choice's first.
            usage: What the chunk says of usage: counts, null or nothing.
        """
        ...

    def closing(self, usage: Usage) -> bytes:
        """The chunk without choices that carries the usage."""
        ...


_dump: Final = msgspec.json.encode
_Choice = TypeVar("_Choice", TextChoice, ChatChoice)


async def _one_by_one(
    write: Callable[[int, Piece], Awaitable[_Choice]], view: View, choices: Sequence[Piece]
) -> tuple[_Choice, ...]:
    written = []
    for index, piece in enumerate(choices):
        await view.prepare(piece.opening)
        written.append(await write(index, piece))
        await asyncio.sleep(0)
    return tuple(written)


class CompletionShape(Shape):
    """Shape of /v1/completions.

    Args:
        head: What each part says first.
        view: What is shown beside the text.
    """

    def __init__(self, head: Head, view: View) -> None:
        self._head = head
        self._view = view

    def _answer(self, choices: tuple[TextChoice, ...], usage: ChunkUsage) -> bytes:
        head = self._head
        return _dump(
            Completion(
                id=f"cmpl-{head.answer_id}",
                created=head.created,
                model=head.model,
                service_tier=head.service_tier,
                choices=choices,
                usage=usage,
            )
        )

    async def _choice(self, index: int, piece: Piece) -> TextChoice:
        view = self._view
        return TextChoice(
            index=index,
            text=piece.shown,
            logprobs=await view.of_text(piece),
            finish_reason=piece.finish_reason,
            stop_reason=piece.stop_reason,
            token_ids=view.ids(piece),
            prompt_token_ids=view.prompt_ids(piece.opening),
            prompt_logprobs=view.of_prompt(piece.opening),
        )

    @override
    async def whole(self, choices: Sequence[Piece], usage: Usage) -> bytes:
        return self._answer(await _one_by_one(self._choice, self._view, choices), usage)

    @override
    async def chunk(self, index: int, piece: Piece, *, is_first: bool, usage: ChunkUsage) -> bytes:
        await self._view.prepare(piece.opening)
        return self._answer((await self._choice(index, piece),), usage)

    @override
    def closing(self, usage: Usage) -> bytes:
        return self._answer((), usage)


class ChatShape(Shape):
    """Shape of /v1/chat/completions.

    Args:
        head: What each part says first.
        view: What is shown beside the text.
    """

    def __init__(self, head: Head, view: View) -> None:
        self._head = head
        self._view = view

    def _chunk(
        self,
        choices: tuple[ChatChunkChoice, ...],
        usage: ChunkUsage,
        opening: Opening | None = None,
    ) -> bytes:
        head = self._head
        return _dump(
            ChatChunk(
                id=f"chatcmpl-{head.answer_id}",
                created=head.created,
                model=head.model,
                service_tier=head.service_tier,
                choices=choices,
                usage=usage,
                prompt_token_ids=self._view.prompt_ids(opening),
            )
        )

    async def _choice(self, index: int, piece: Piece) -> ChatChoice:
        return ChatChoice(
            index=index,
            message=AssistantMessage(content=piece.text),
            logprobs=await self._view.of_chat(piece),
            finish_reason=piece.finish_reason,
            stop_reason=piece.stop_reason,
            token_ids=self._view.ids(piece),
        )

    @override
    async def whole(self, choices: Sequence[Piece], usage: Usage) -> bytes:
        head, opening = self._head, choices[0].opening
        return _dump(
            ChatCompletion(
                id=f"chatcmpl-{head.answer_id}",
                created=head.created,
                model=head.model,
                service_tier=head.service_tier,
                choices=await _one_by_one(self._choice, self._view, choices),
                usage=usage,
                prompt_token_ids=self._view.prompt_ids(opening),
                prompt_logprobs=self._view.of_prompt(opening),
            )
        )

    @override
    async def chunk(self, index: int, piece: Piece, *, is_first: bool, usage: ChunkUsage) -> bytes:
        await self._view.prepare(piece.opening)
        choice = ChatChunkChoice(
            index=index,
            delta=ChatDelta(content=piece.text, role="assistant" if is_first else UNSET),
            logprobs=await self._view.of_chat(piece) if len(piece.scored) else None,
            finish_reason=piece.finish_reason,
            stop_reason=piece.stop_reason,
            token_ids=self._view.ids(piece),
        )
        return self._chunk((choice,), usage, piece.opening)

    @override
    def closing(self, usage: Usage) -> bytes:
        return self._chunk((), usage)
