"""Byte-level BPE from a vocabulary and merges, as GGUF files carry them.

A GGUF file names how text is cut before merging (`tokenizer.ggml.pre`) but does not say
what the name means; each name here was compared with llama.cpp. Unknown names are
refused, because a wrong cut gives wrong ids without any error. One thing is not as in
llama.cpp: Qwen's tokenizer composes characters (NFC) first, and so it is done here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from tokenizers import AddedToken, Regex
from tokenizers import Tokenizer as BpeLibrary
from tokenizers.models import BPE
from tokenizers.normalizers import NFC
from tokenizers.pre_tokenizers import ByteLevel, Digits, PreTokenizer, Split
from tokenizers.pre_tokenizers import Sequence as InOrder

from paceline_engine.tokenizer.errors import TokenizerLoadError, UnsupportedTokenizerError

# Words of recently seen text whose merges are kept; small, as it costs memory per entry.
_CACHE_ENTRIES: Final = 4096
_BATCH_CHARS: Final = 4096  # from here on the library's batch call, which releases the GIL


def _split_by(pattern: str) -> PreTokenizer:
    """Cuts at the matches of `pattern`, which stay whole, and maps words to bytes."""
    return InOrder(
        [
            Split(Regex(pattern), behavior="isolated"),
            ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


def _words(digits: str) -> str:
    """Contractions, words with one leading mark, numbers, marks, line ends, white space."""
    return (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
        r"|[^\r\n\p{L}\p{N}]?\p{L}+"
        rf"|{digits}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+"
    )


@dataclass(frozen=True, slots=True)
class _Kind:
    """How one kind treats text.

    Attributes:
        cut: Makes the pre-tokenizer.
        whole_words: Whether a word of the vocabulary is taken unmerged.
        composes: Whether characters are composed (NFC) first.
        adds_bos: Whether a prompt begins with a token of its own where the file is silent.
    """

    cut: Callable[[], PreTokenizer]
    whole_words: bool = False
    composes: bool = False
    adds_bos: bool = False


KINDS: Final[Mapping[str, _Kind]] = {
    "gpt-2": _Kind(lambda: ByteLevel(add_prefix_space=False)),
    "llama-bpe": _Kind(lambda: _split_by(_words(r"\p{N}{1,3}")), whole_words=True, adds_bos=True),
    "qwen2": _Kind(lambda: _split_by(_words(r"\p{N}")), composes=True),
    "smollm": _Kind(
        lambda: InOrder([Digits(individual_digits=True), ByteLevel(add_prefix_space=False)])
    ),
}
# Further names that llama.cpp treats alike.
ALIASES: Final[Mapping[str, str]] = {
    "llama3": "llama-bpe",
    "llama-v3": "llama-bpe",
    "deepseek-r1-qwen": "qwen2",
}


def kind_named(name: str) -> _Kind:
    """The kind that a file calls `name`.

    Raises:
        UnsupportedTokenizerError: It is unknown.
    """
    try:
        return KINDS[ALIASES.get(name, name)]
    except KeyError:
        known = ", ".join(sorted({*KINDS, *ALIASES}))
        raise UnsupportedTokenizerError(
            f"pre-tokenizer {name!r} is not supported (supported: {known})"
        ) from None


@contextmanager
def library_errors(what: str) -> Iterator[None]:
    """Makes one kind of what the library raises, panics included.

    Raises:
        TokenizerLoadError: `what`, and why.
    """
    try:
        yield
    except BaseException as error:  # the library raises nothing narrower
        is_panic = type(error).__name__ == "PanicException"
        if not is_panic and not isinstance(error, Exception):
            raise
        raise TokenizerLoadError(f"{what}: {error}") from error


def build_bpe(
    tokens: Sequence[str],
    merges: Sequence[str],
    kind: str,
    specials: Sequence[str],
    added: Sequence[str],
) -> BpeLibrary:
    """Builds the library's tokenizer; special tokens in a text stay plain text.

    Args:
        tokens: Vocabulary in id order, in the byte-level alphabet.
        merges: Pairs separated by one space, by rank.
        kind: `tokenizer.ggml.pre`.
        specials: Special tokens.
        added: Further tokens that are always matched whole.

    Raises:
        UnsupportedTokenizerError: The kind is unknown.
        TokenizerLoadError: A merge does not fit the vocabulary.
    """
    chosen = kind_named(kind)
    vocabulary = {token: token_id for token_id, token in enumerate(tokens)}
    if len(vocabulary) != len(tokens):
        raise TokenizerLoadError("two ids share one token text")
    forging = set(specials)  # plain text must not become one
    halves = (merge.partition(" ") for merge in merges)
    pairs = [(left, right) for left, _, right in halves if left + right not in forging]
    with library_errors("vocabulary and merges do not fit"):
        model = BPE(
            vocab=vocabulary,
            merges=pairs,
            cache_capacity=_CACHE_ENTRIES,
            ignore_merges=chosen.whole_words,
        )
    library = BpeLibrary(model)
    if chosen.composes:
        library.normalizer = NFC()
    library.pre_tokenizer = chosen.cut()
    library.add_special_tokens([_exact(text) for text in specials])
    library.add_tokens([_exact(text) for text in added])
    return keep_specials_plain(library)


def _exact(text: str) -> AddedToken:
    return AddedToken(text, normalized=False)


def keep_specials_plain(library: BpeLibrary) -> BpeLibrary:
    """Sets, once and before any use, that special tokens in a text are not recognised."""
    library.encode_special_tokens = True
    return library


def plain_encoder(library: BpeLibrary) -> Callable[[str], list[int]]:
    """The encode function of a library tokenizer prepared by `keep_specials_plain`."""

    def encode(text: str) -> list[int]:
        text.encode()  # a lone surrogate raises UnicodeEncodeError here, not a TypeError below
        if len(text) < _BATCH_CHARS:
            ids: list[int] = library.encode(text, add_special_tokens=False).ids
        else:
            ids = library.encode_batch_fast([text], add_special_tokens=False)[0].ids
        return ids

    return encode
