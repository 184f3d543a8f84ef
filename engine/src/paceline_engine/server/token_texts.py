"""How single tokens read in log-probabilities and token lists."""

from __future__ import annotations

from paceline_engine.tokenizer import Tokenizer


class TokenTexts:
    """Texts of single tokens, special ones included.

    Args:
        tokenizer: The model's.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._bytes = tokenizer.vocabulary.token_bytes

    def raw(self, token_id: int) -> bytes:
        """The token's bytes."""
        return self._bytes[token_id]

    def text(self, token_id: int) -> str:
        """The token as text; bytes that are no UTF-8 on their own become U+FFFD."""
        return self._bytes[token_id].decode("utf-8", "replace")

    def key(self, token_id: int) -> str:
        r"""The token as text; part of a character as `bytes:\xe2\x82`, as OpenAI writes it."""
        raw = self._bytes[token_id]
        try:
            return raw.decode()
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in raw)
