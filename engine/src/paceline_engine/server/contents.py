"""How much a body holds, counted before it is parsed: what is too much costs the streams no time.

Parsing makes an object of every value, on the event loop, while everybody waits. Counting makes
none: what JSON is made of are a few bytes that mean nothing else outside of texts.
"""

from __future__ import annotations

from typing import Final

from paceline_engine.server.errors import BadRequestError, ContextLengthError

MAX_VALUES: Final = 65_536
"""Texts, names of fields included, lists and objects of one body, wherever they stand."""


def check_contents(raw: bytes, max_numbers: int) -> None:
    """Whether a body may be parsed. One that is no JSON is found out by parsing, at no more cost.

    Args:
        raw: Its bytes.
        max_numbers: Numbers it may hold, token ids above all, and what else stands in lists.

    Raises:
        BadRequestError: It holds too much.
    """
    plain = raw.replace(b"\\\\", b"").replace(b'\\"', b"")  # each quote now begins or ends a text
    values = (plain.count(b'"') + 1) // 2
    _check_values(values)
    outside = b"".join(plain.split(b'"')[::2])
    _check_values(values + outside.count(b"[") + outside.count(b"{"))
    separators = outside.count(b",")
    if separators > MAX_VALUES + max_numbers:
        raise ContextLengthError(
            f"the body holds {separators} values and one call may bring {max_numbers} token ids; "
            "shorten it or send it in parts"
        )


def _check_values(values: int) -> None:
    if values > MAX_VALUES:
        raise BadRequestError(
            f"the body holds {values} texts, lists and objects or more; the limit is {MAX_VALUES}",
            code="invalid_value",
        )
