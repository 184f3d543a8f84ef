"""The JSON of many log-probabilities, written so that the event loop gets its turns meanwhile.

A long prompt or answer has a hundred thousand of them. Those of a prompt are written once and
shown in every choice. What is written stands as `msgspec.Raw` in the place of the values, whose
types the API's document keeps; a few are handed on as they are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, islice
from typing import Any, Final, TypeVar, cast

import msgspec
from msgspec import Raw

from paceline_engine.message import TokenLogprobs
from paceline_engine.server.answer_wire import (
    ChatLogprobs,
    ChatTokenLogprob,
    PromptLogprobs,
    TextLogprobs,
)
from paceline_engine.server.logprob_view import (
    Place,
    chat_logprobs,
    drawn,
    echoed,
    prompt_logprobs,
    text_logprobs,
)
from paceline_engine.server.piece import Opening, Scored
from paceline_engine.server.token_texts import TokenTexts

SLICE_PLACES: Final = 64
"""Places that are written between two turns of the event loop."""

LONG_BYTES: Final = 1_048_576
"""From here on a thread joins what was written."""

_EMPTY_BYTES: Final = len(b"[]")
_COLUMNS: Final = TextLogprobs.__struct_fields__
_dump: Final = msgspec.json.encode
_Item = TypeVar("_Item")


class _Array:
    """A JSON array, written part by part."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def extend(self, items: Sequence[object]) -> None:
        if items:
            self._parts.append(_dump(items)[1:-1])

    async def raw(self) -> Raw:
        if sum(map(len, self._parts)) < LONG_BYTES:
            return self._joined()
        return await asyncio.to_thread(self._joined)  # which long bytes are joined beside

    def _joined(self) -> Raw:
        if not self._parts:
            return Raw(b"[]")
        self._parts[0] = b"[" + self._parts[0]
        self._parts[-1] += b"]"
        return Raw(b",".join(self._parts))


class EchoedColumns:
    """Columns of an echoed prompt, ready to be continued by those of an output.

    Args:
        columns: Each as a JSON array.
    """

    def __init__(self, columns: Mapping[str, Raw]) -> None:
        self._columns = columns

    def continued(self, rest: TextLogprobs) -> TextLogprobs:
        """The prompt's places, then those of `rest`."""
        joined: dict[str, Any] = {
            name: _joined(self._columns[name], getattr(rest, name)) for name in _COLUMNS
        }
        return TextLogprobs(**joined)


async def echoed_columns(texts: TokenTexts, top: int, opening: Opening) -> EchoedColumns:
    """Columns of a completion that begins with its prompt; see `text_logprobs`."""
    return EchoedColumns(await _columns(texts, top, echoed(opening)))


async def drawn_columns(texts: TokenTexts, top: int, scored: Scored) -> TextLogprobs:
    """Columns of a completion's output; see `text_logprobs`."""
    if len(scored) <= SLICE_PLACES:
        return text_logprobs(texts, top, tuple(drawn(scored)))
    columns: dict[str, Any] = dict(await _columns(texts, top, drawn(scored)))
    return TextLogprobs(**columns)


async def chat_array(texts: TokenTexts, top: int, scored: Scored) -> ChatLogprobs:
    """Log-probabilities of a chat's output; see `chat_logprobs`."""
    if len(scored) <= SLICE_PLACES:
        return chat_logprobs(texts, top, scored)
    array = _Array()
    await _in_slices(
        scored, lambda part: array.extend(chat_logprobs(texts, top, part).content or ())
    )
    return ChatLogprobs(content=cast("tuple[ChatTokenLogprob, ...]", await array.raw()))


async def prompt_array(texts: TokenTexts, top: int, opening: Opening) -> PromptLogprobs:
    """Log-probabilities of a prompt; see `prompt_logprobs`."""
    array = _Array()
    await _in_slices(
        chain[TokenLogprobs | None]((None,), opening.scores),
        lambda scores: array.extend(prompt_logprobs(texts, top, scores)),
    )
    return cast("PromptLogprobs", await array.raw())


async def _columns(texts: TokenTexts, top: int, places: Iterable[Place]) -> dict[str, Raw]:
    arrays = {name: _Array() for name in _COLUMNS}

    def write(part: Sequence[Place]) -> None:
        columns = text_logprobs(texts, top, part)
        for name, array in arrays.items():
            array.extend(getattr(columns, name))

    await _in_slices(places, write)
    return {name: await array.raw() for name, array in arrays.items()}


async def _in_slices(items: Iterable[_Item], write: Callable[[Sequence[_Item]], None]) -> None:
    left = iter(items)
    while part := tuple(islice(left, SLICE_PLACES)):
        write(part)
        await asyncio.sleep(0)


def _joined(head: Raw, tail: Sequence[object] | Raw) -> Raw:
    rest = memoryview(tail if isinstance(tail, Raw) else _dump(tail))
    if len(rest) == _EMPTY_BYTES:
        return head
    if len(memoryview(head)) == _EMPTY_BYTES:
        return Raw(bytes(rest))
    return Raw(b"".join((memoryview(head)[:-1], b",", rest[1:])))
