"""The query and the answer of DELETE /admin/cache.

::

    DELETE /admin/cache?tenant=&scope=&salt=&older_than=
    {"blocks": 12, "tokens": 192, "held": 3}

Without a parameter everything is cleared; an empty tenant, scope or salt is the default one.
`older_than` is in seconds. A value may hold what a caller keeps secret, so no error repeats it.
"""

from __future__ import annotations

import re
from typing import Annotated, Final, TypedDict
from urllib.parse import parse_qsl

from pydantic import Field

from paceline_engine.server.admin_wire import AdminModel
from paceline_engine.server.errors import BadRequestError

_PARTS: Final = ("tenant", "scope", "salt")
_AGE: Final = "older_than"
_SECONDS: Final = re.compile(r"\d{1,12}(\.\d{1,9})?", re.ASCII)
Count = Annotated[int, Field(ge=0)]


class CacheSelection(TypedDict, total=False):
    """What to clear: arguments of `EngineClient.clear_cache`."""

    tenant: str
    scope: str
    salt: str
    older_than_s: float


class CacheCleared(AdminModel):
    """What was cleared.

    Attributes:
        blocks: Blocks freed and overwritten.
        tokens: Tokens they held.
        held: Blocks in use by running requests: nobody can find them any more, and they are
            overwritten when they are free.
    """

    blocks: Count
    tokens: Count
    held: Count


def selection(query: bytes) -> CacheSelection:
    """Reads a query string.

    Raises:
        BadRequestError: A parameter is unknown, malformed or given twice.
    """
    chosen = CacheSelection()
    for name, value in _pairs(query):
        key = "older_than_s" if name == _AGE else name
        if key in chosen:
            raise _refusal(name, "give it once")
        if name == _AGE:
            chosen["older_than_s"] = _seconds(value)
        elif name == "tenant":
            chosen["tenant"] = value
        elif name == "scope":
            chosen["scope"] = value
        elif name == "salt":
            chosen["salt"] = value
        else:
            known = ", ".join((*_PARTS, _AGE))
            raise BadRequestError(f"an unknown parameter; there are {known}", code="invalid_value")
    return chosen


def _pairs(query: bytes) -> list[tuple[str, str]]:
    if not query:
        return []
    try:
        return parse_qsl(
            query.decode("ascii"), keep_blank_values=True, strict_parsing=True, errors="strict"
        )
    except ValueError as error:
        raise BadRequestError("the query is malformed", code="invalid_value") from error


def _seconds(text: str) -> float:
    if not _SECONDS.fullmatch(text):
        raise _refusal(_AGE, "write seconds, like 60 or 0.5")
    return float(text)


def _refusal(name: str, why: str) -> BadRequestError:
    return BadRequestError(f"{name}: {why}", param=name, code="invalid_value")
