"""BPE in the manner of SentencePiece: spaces are written as U+2581, bytes are the last resort.

GGUF files (`tokenizer.ggml.model` "llama") carry a score for each token and no merges. The
merges follow from the scores: two neighbours join if the vocabulary has what they make, the
one of the highest score first. So transformers turns a SentencePiece model into merges, too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tokenizers import AddedToken
from tokenizers import Tokenizer as BpeLibrary
from tokenizers.models import BPE
from tokenizers.normalizers import Normalizer, Prepend, Replace
from tokenizers.normalizers import Sequence as InOrder

from paceline_engine.tokenizer.byte_pair import keep_specials_plain, library_errors
from paceline_engine.tokenizer.errors import TokenizerLoadError

SPACE: Final = "\u2581"
_BYTE: Final = re.compile(r"<0x([0-9A-F]{2})>")
_CACHE_ENTRIES: Final = 4096


def piece_bytes(token: str) -> bytes:
    """Bytes of an ordinary token."""
    return token.replace(SPACE, " ").encode()


def byte_of(token: str) -> bytes | None:
    """The byte that a token such as `<0x0A>` stands for; None for any other."""
    match = _BYTE.fullmatch(token)
    return bytes([int(match[1], 16)]) if match else None


def check_bytes(tokens: Sequence[str]) -> None:
    """Whether every text can be written.

    Raises:
        TokenizerLoadError: The vocabulary lacks a byte.
    """
    missing = {f"<0x{byte:02X}>" for byte in range(256)}.difference(tokens)
    if missing:
        raise TokenizerLoadError(f"the vocabulary lacks {len(missing)} of 256 byte tokens")


def build_pieces(
    tokens: Sequence[str],
    scores: Mapping[str, float],
    specials: Sequence[str],
    added: Sequence[str],
    *,
    prefix_space: bool,
) -> BpeLibrary:
    """Builds the library's tokenizer; special tokens in a text stay plain text.

    Args:
        tokens: Vocabulary in id order.
        scores: Score of each token that text may become.
        specials: Special tokens.
        added: Further tokens that are always matched whole.
        prefix_space: Whether a space is put before each text.

    Raises:
        TokenizerLoadError: The vocabulary contradicts itself.
    """
    check_bytes(tokens)
    vocabulary = {token: token_id for token_id, token in enumerate(tokens)}
    if len(vocabulary) != len(tokens):
        raise TokenizerLoadError("two ids share one token text")
    if not all(map(math.isfinite, scores.values())):
        raise TokenizerLoadError("a token's score is not finite")
    with library_errors("the vocabulary does not fit"):
        model = BPE(
            vocab=vocabulary,
            merges=_merges(vocabulary, scores),
            cache_capacity=_CACHE_ENTRIES,
            fuse_unk=True,
            byte_fallback=True,
        )
    library = BpeLibrary(model)
    library.normalizer = _spaces(prefix_space=prefix_space)
    library.add_special_tokens([AddedToken(text, normalized=False) for text in specials])
    library.add_tokens([AddedToken(text, normalized=False) for text in added])
    return keep_specials_plain(library)


def _spaces(*, prefix_space: bool) -> Normalizer:
    written = Replace(" ", SPACE)
    return InOrder([Prepend(SPACE), written]) if prefix_space else written


def _merges(vocabulary: Mapping[str, int], scores: Mapping[str, float]) -> list[tuple[str, str]]:
    """All pairs that make a token, in the order in which they are joined."""
    ranked = sorted(
        (-score, -len(left), -len(right), vocabulary[token], vocabulary[left], vocabulary[right])
        for token, score in scores.items()
        for left, right in _halves(token)
        if left in scores and right in scores
    )
    tokens = list(vocabulary)
    return [(tokens[left], tokens[right]) for *_, left, right in ranked]


def _halves(token: str) -> Iterator[tuple[str, str]]:
    return ((token[:cut], token[cut:]) for cut in range(1, len(token)))
