"""Text of a growing token sequence, emitted as soon as it is certain."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from typing import Final

from paceline_engine.tokenizer.vocabulary import Vocabulary

_UTF8: Final = codecs.getincrementaldecoder("utf-8")


class IncrementalDecoder:
    """Decodes one request's output token by token.

    A code point whose bytes are spread over several tokens is held back until its last
    byte is there. The concatenation of all `push` results and `flush` equals
    `Tokenizer.decode` of all ids, but for the space that some vocabularies put before a
    text: it is kept here, where a prompt goes before. Each token costs O(its bytes),
    whatever came before.
    Not safe for use by two threads at once; make one for each stream.
    """

    __slots__ = ("_decoder", "_shown")

    def __init__(self, vocabulary: Vocabulary, *, skip_special: bool = True) -> None:
        self._shown = vocabulary.shown if skip_special else vocabulary.token_bytes
        self._decoder = _UTF8(errors="replace")

    def push(self, token_ids: Iterable[int]) -> str:
        """Adds tokens; returns the code points that they complete, perhaps none.

        Raises:
            IndexError: An id outside the vocabulary.
        """
        shown = self._shown
        return self._decoder.decode(b"".join([shown[token_id] for token_id in token_ids]))

    def flush(self) -> str:
        """Ends the sequence: an unfinished code point becomes U+FFFD."""
        return self._decoder.decode(b"", final=True)
