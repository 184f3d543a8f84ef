"""How the two generating routes write an answer: whole, in chunks, and its usage."""

from __future__ import annotations

from typing import Final, Protocol

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
    Completion,
    TextChoice,
    Usage,
)
from paceline_engine.server.generation import Piece


class Shape(Protocol):
    """Writes the JSON of one call's answer."""

    def whole(self, choices: list[Piece], usage: Usage) -> bytes:
        """The whole answer; a choice for each prompt."""
        ...

    def chunk(self, index: int, piece: Piece, *, is_first: bool, with_usage: bool) -> bytes:
        """One piece of a choice.

        Args:
            index: The choice.
            piece: What is new.
            is_first: Whether it is the choice's first.
            with_usage: Whether the stream ends with its usage, so that chunks say null.
        """
        ...

    def closing(self, usage: Usage) -> bytes:
        """The chunk without choices that carries the usage."""
        ...


_dump: Final = msgspec.json.encode


class CompletionShape(Shape):
    """Shape of /v1/completions."""

    def __init__(self, answer_id: str, created: int, model: str) -> None:
        self._id = f"cmpl-{answer_id}"
        self._created = created
        self._model = model

    def _answer(
        self, choices: tuple[TextChoice, ...], usage: Usage | UnsetType | None
    ) -> Completion:
        return Completion(
            id=self._id, created=self._created, model=self._model, choices=choices, usage=usage
        )

    @override
    def whole(self, choices: list[Piece], usage: Usage) -> bytes:
        texts = (
            TextChoice(index=index, text=piece.text, finish_reason=piece.finish_reason)
            for index, piece in enumerate(choices)
        )
        return _dump(self._answer(tuple(texts), usage))

    @override
    def chunk(self, index: int, piece: Piece, *, is_first: bool, with_usage: bool) -> bytes:
        choice = TextChoice(index=index, text=piece.text, finish_reason=piece.finish_reason)
        return _dump(self._answer((choice,), None if with_usage else UNSET))

    @override
    def closing(self, usage: Usage) -> bytes:
        return _dump(self._answer((), usage))


class ChatShape(Shape):
    """Shape of /v1/chat/completions."""

    def __init__(self, answer_id: str, created: int, model: str) -> None:
        self._id = f"chatcmpl-{answer_id}"
        self._created = created
        self._model = model

    def _chunk(
        self, choices: tuple[ChatChunkChoice, ...], usage: Usage | UnsetType | None
    ) -> ChatChunk:
        return ChatChunk(
            id=self._id, created=self._created, model=self._model, choices=choices, usage=usage
        )

    @override
    def whole(self, choices: list[Piece], usage: Usage) -> bytes:
        messages = (
            ChatChoice(
                index=index,
                message=AssistantMessage(content=piece.text),
                finish_reason=piece.finish_reason,
            )
            for index, piece in enumerate(choices)
        )
        answer = ChatCompletion(
            id=self._id,
            created=self._created,
            model=self._model,
            choices=tuple(messages),
            usage=usage,
        )
        return _dump(answer)

    @override
    def chunk(self, index: int, piece: Piece, *, is_first: bool, with_usage: bool) -> bytes:
        choice = ChatChunkChoice(
            index=index,
            delta=ChatDelta(content=piece.text, role="assistant" if is_first else UNSET),
            finish_reason=piece.finish_reason,
        )
        return _dump(self._chunk((choice,), None if with_usage else UNSET))

    @override
    def closing(self, usage: Usage) -> bytes:
        return _dump(self._chunk((), usage))
