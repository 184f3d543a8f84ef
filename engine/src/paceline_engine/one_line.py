"""Text of others, a damaged file's for instance, made fit to stand in one line of a message."""

from __future__ import annotations

from typing import Final

_LONGEST: Final = 600


def one_line(text: str) -> str:
    """The text without line breaks and control characters, and of bounded length."""
    joined = " ".join(text.split())
    shown = "".join(character if character.isprintable() else "?" for character in joined)
    return shown if len(shown) <= _LONGEST else shown[:_LONGEST] + "..."
