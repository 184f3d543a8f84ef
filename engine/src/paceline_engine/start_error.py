"""The one error of a start that cannot work."""

from __future__ import annotations


class StartError(Exception):
    """The engine cannot start as asked; the message is one line with a remedy."""
