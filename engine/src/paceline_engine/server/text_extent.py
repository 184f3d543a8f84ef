"""How much text a body brings, wherever in it that stands. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pydantic import BaseModel


def strings(value: object) -> Iterator[str]:
    """All texts in a JSON value or a checked body, names of members too.

    What is no text counts as an empty one, so that whoever reads on sees how much there is.
    """
    pending = [value]
    while pending:
        each = pending.pop()
        if isinstance(each, BaseModel):
            pending.extend(vars(each).values())
        elif isinstance(each, Mapping):
            pending.extend(each.keys())
            pending.extend(each.values())
        elif isinstance(each, list | tuple):
            pending.extend(each)
        yield each if isinstance(each, str) else ""


def exceeds(value: object, limit: int) -> bool:
    """Whether it is more than so many characters and parts; reads no more than it must."""
    extent = 0
    for text in strings(value):
        extent += len(text) + 1
        if extent > limit:
            return True
    return False


def bytes_of(value: object) -> int:
    """UTF-8 bytes of all texts."""
    return sum(len(text.encode(errors="surrogatepass")) for text in strings(value))
