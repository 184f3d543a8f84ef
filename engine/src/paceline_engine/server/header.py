"""Headers that count, of which there may be only one."""

from __future__ import annotations

from starlette.datastructures import Headers

from paceline_engine.server.errors import BadRequestError


def only(headers: Headers, name: str) -> str | None:
    """The header's value: which of two counts, the next proxy may see otherwise.

    Raises:
        BadRequestError: It is given more than once.
    """
    values = headers.getlist(name)
    if len(values) > 1:
        raise BadRequestError(f"{name}: given {len(values)} times; give it once", param=name)
    return values[0] if values else None
