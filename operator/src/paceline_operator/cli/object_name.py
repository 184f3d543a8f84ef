"""Names of objects and namespaces as users write them, checked before they are part of a path."""

from __future__ import annotations

import re

from paceline_operator.api.v1alpha1 import KIND
from paceline_operator.cli.errors import CliError

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(rf"{_LABEL.pattern}(\.{_LABEL.pattern})*")
_LONGEST = 253
"""Of RFC 1123, as every API server asks for them."""


def check_name(name: str) -> None:
    """Refuses what no object can be called.

    Raises:
        CliError: It is such.
    """
    if not _is_name(name):
        raise CliError(f"{name!r} is no name of an {KIND}: {_remedy(name, 'chat')}")


def check_namespace(namespace: object) -> None:
    """Refuses what no namespace can be called, such as a number in a file.

    Raises:
        CliError: It is such.
    """
    text = str(namespace)
    if not isinstance(namespace, str) or _LABEL.fullmatch(text) is None:
        raise CliError(f"{namespace!r} is no name of a namespace: {_remedy(text, 'default')}")


def _is_name(text: str) -> bool:
    return len(text) <= _LONGEST and _SUBDOMAIN.fullmatch(text) is not None


def _remedy(text: str, example: str) -> str:
    """People write `infs/chat`, as kubectl takes it."""
    last = text.rpartition("/")[2]
    if last != text and _is_name(last):
        return f"write {last} alone"
    return f"write one of small letters, digits and '-', such as {example}"
