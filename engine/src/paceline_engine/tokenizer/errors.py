"""What can go wrong between text and token ids.

`TokenizerLoadError` stops a start (one line, exit code 2); `InvalidTextError` and
`ChatTemplateError` belong to one request and become HTTP 400.
"""

from __future__ import annotations

from paceline_engine.one_line import one_line


class TokenizerError(Exception):
    """Base of everything this package raises on purpose; the message is one line."""


class TokenizerLoadError(TokenizerError):
    """The model's tokenizer files are missing, broken or contradictory.

    Args:
        reason: What is wrong and what to do; line breaks and control characters, which a
            damaged file may bring in, are taken out.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(one_line(reason))


class UnsupportedTokenizerError(TokenizerLoadError):
    """The tokenizer is of a kind this engine does not know; it is never guessed."""


class InvalidTextError(TokenizerError):
    """The text cannot be encoded as UTF-8 (it holds a lone surrogate)."""


class ChatTemplateError(TokenizerError):
    """The model has no chat template, or it rejects these messages."""
