"""Text of an input as it may be shown: on its line, and without orders to a terminal."""

from __future__ import annotations


def one_line(text: str) -> str:
    r"""The text with all that is not printable as escapes, such as `\n` and `\x1b`."""
    return "".join(each if each.isprintable() else _escape(each) for each in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
