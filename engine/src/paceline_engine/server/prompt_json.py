"""The JSON of a prompt's log-probabilities: written once, shown in every choice.

A long prompt has a hundred thousand of them, so the event loop gets its turns meanwhile. What
is written stands as `msgspec.Raw` in the place of the values, whose types the API's document
keeps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar, cast

import msgspec
from msgspec import Raw

from paceline_engine.server.answer_wire import PromptLogprobs, TextLogprobs
from paceline_engine.server.logprob_view import Place, echoed, prompt_logprobs, text_logprobs
from paceline_engine.server.piece import Opening
from paceline_engine.server.token_texts import TokenTexts

SLICE_PLACES: Final = 64
"""Places that are written between two turns of the event loop."""

_COLUMNS: Final = TextLogprobs.__struct_fields__
_dump: Final = msgspec.json.encode
_Item = TypeVar("_Item")


class _Array:
    """A JSON array, written part by part."""

    def __init__(self, whole: bytes = b"[]") -> None:
        self._parts = [whole[1:-1]] if whole != b"[]" else []

    def extend(self, items: Sequence[object]) -> None:
        if items:
            self._parts.append(_dump(items)[1:-1])

    def raw(self) -> Raw:
        return Raw(b"[" + b",".join(self._parts) + b"]")


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
    arrays = {name: _Array() for name in _COLUMNS}

    def write(places: Sequence[Place]) -> None:
        columns = text_logprobs(texts, top, places)
        for name, array in arrays.items():
            array.extend(getattr(columns, name))

    await _in_slices(echoed(opening), write)
    return EchoedColumns({name: array.raw() for name, array in arrays.items()})


async def prompt_array(texts: TokenTexts, top: int, opening: Opening) -> PromptLogprobs:
    """Log-probabilities of a prompt; see `prompt_logprobs`."""
    array = _Array()
    await _in_slices(
        (None, *opening.scores),
        lambda scores: array.extend(prompt_logprobs(texts, top, scores)),
    )
    return cast("PromptLogprobs", array.raw())


async def _in_slices(items: Sequence[_Item], write: Callable[[Sequence[_Item]], None]) -> None:
    for first in range(0, len(items), SLICE_PLACES):
        write(items[first : first + SLICE_PLACES])
        await asyncio.sleep(0)


def _joined(head: Raw, tail: Sequence[object]) -> Raw:
    array = _Array(bytes(head))
    array.extend(tail)
    return array.raw()
