"""Long bodies, looked over before they are parsed: what is too much costs the streams no time.

Parsing makes an object of every value, on the event loop, while everybody waits. Splitting a
body into its fields makes none, so fields that nobody reads are left out, and those with more
entries than may be are refused, by counts that cost a moment.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import msgspec
from msgspec import Raw
from pydantic import BaseModel

from paceline_engine.server.chat_fields import MAX_MESSAGES
from paceline_engine.server.errors import BadRequestError
from paceline_engine.server.known_fields import NEUTRAL
from paceline_engine.server.sampling_fields import (
    MAX_BAD_WORDS,
    MAX_BIASED_TOKENS,
    MAX_STOP_CHARS,
    MAX_STOP_TOKENS,
    MAX_STOPS,
)

SKIM_BYTES: Final = 262_144
"""Shorter bodies are parsed in a moment."""

MAX_PARTS: Final = 16_384
"""Content parts of all messages together."""

MAX_VALUES: Final = 65_536
"""Values in all tools, in the template's variables, or in what else messages bring."""

_CHAR_BYTES: Final = 12  # an escaped pair of surrogates
_TEXT_BYTES: Final = MAX_STOP_CHARS * _CHAR_BYTES + 8
_MOST_BYTES: Final = {
    "stop": MAX_STOPS * _TEXT_BYTES,
    "bad_words": MAX_BAD_WORDS * _TEXT_BYTES,
    "stop_token_ids": MAX_STOP_TOKENS * 64,
    "logit_bias": MAX_BIASED_TOKENS * 64,
    "user": 65_536,
}
_NEUTRAL_BYTES: Final = 256
_ABSENT: Final = Raw(b"null")
_REFUSED: Final = Raw(b"true")  # no neutral value of any field
_MESSAGES: Final = msgspec.json.Decoder(list[dict[str, Raw]])
_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])
_LIST: Final = msgspec.json.Decoder(list[Raw])


def skim(raw: bytes, model: type[BaseModel]) -> bytes:
    """The body without what the model does not read.

    Args:
        raw: A body's JSON.
        model: What it will be parsed as.

    Raises:
        BadRequestError: No JSON object, or a field holds more than it may.
    """
    try:
        fields = _FIELDS.decode(raw)
    except msgspec.ValidationError as error:
        raise BadRequestError("the body must be a JSON object", code="invalid_value") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequestError("the body is not valid JSON", code="invalid_json") from error
    for name in fields.keys() - model.model_fields.keys():
        is_long = len(bytes(fields[name])) > _NEUTRAL_BYTES
        if is_long:
            fields[name] = _REFUSED if name in NEUTRAL else _ABSENT
    _check(fields)
    return msgspec.json.encode(fields)


@contextmanager
def uncollected() -> Iterator[None]:
    """Parsing makes many objects and no garbage: looking for it takes most of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _check(fields: Mapping[str, Raw]) -> None:
    for name, most in _MOST_BYTES.items():
        if name in fields and len(bytes(fields[name])) > most:
            raise _too_much(name, f"may be at most {most} bytes of JSON")
    for name in ("tools", "chat_template_kwargs"):
        if name in fields:
            _check_values(name, bytes(fields[name]))
    if (messages := fields.get("messages")) is not None:
        _check_messages(bytes(messages))


def _check_messages(raw: bytes) -> None:
    try:
        if len(_LIST.decode(raw)) > MAX_MESSAGES:
            raise _too_much("messages", f"may hold at most {MAX_MESSAGES}")
        messages = _MESSAGES.decode(raw)
    except msgspec.DecodeError:
        return  # no list of objects: parsing says so
    contents = [bytes(message.pop("content", _ABSENT)) for message in messages]
    parts = sum(len(_LIST.decode(content)) for content in contents if content[:1] == b"[")
    if parts > MAX_PARTS:
        raise _too_much("messages", f"have {parts} content parts; the limit is {MAX_PARTS}")
    _check_values("messages", b",".join(bytes(v) for each in messages for v in each.values()))


def _check_values(name: str, raw: bytes) -> None:
    values = sum(map(raw.count, (b",", b"[", b"{")))
    if values > MAX_VALUES:
        raise _too_much(name, f"may hold at most {MAX_VALUES} values in all")


def _too_much(name: str, reason: str) -> BadRequestError:
    return BadRequestError(f"{name}: {reason}", param=name, code="invalid_value")
