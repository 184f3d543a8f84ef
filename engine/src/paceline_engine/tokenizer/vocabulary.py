"""Token table of a vocabulary: what each id stands for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

# Special tokens that end a generation wherever they are part of a vocabulary, besides
# the declared end-of-sequence token: ends of turn and of text of the known families, and
# the repository mark, which code models use as a separator of documents.
_END_TEXTS: Final = frozenset(
    {
        "<|endoftext|>",
        "<|end_of_text|>",
        "<|im_end|>",
        "<|eot_id|>",
        "<|eom_id|>",
        "<|end|>",
        "<end_of_turn>",
        "<EOT>",
        "<reponame>",
        "<|repo_name|>",
        "<|fim_pad|>",
        "<|file_sep|>",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecialToken:
    """A token that marks structure rather than text, such as a turn's end.

    `strips_left` and `strips_right` swallow white space beside the token.
    """

    text: str
    token_id: int
    strips_left: bool = False
    strips_right: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """Ids and the bytes they decode to.

    Attributes:
        token_bytes: UTF-8 bytes of each id, one entry per id; empty for an unused id.
        specials: Special tokens.
        eos_token_ids: End-of-generation set, ascending.
        bos_token_id: Begin-of-sequence id, None where the model has none.
        adds_bos: Whether a plain prompt starts with `bos_token_id`.
        unsampled_ids: Ids below the last that stand for nothing and must not be drawn.
        prefix_space: Whether encoding puts a space before a text, which decoding a whole
            text takes away.
        shown: `token_bytes` with special tokens empty.
    """

    token_bytes: tuple[bytes, ...]
    specials: tuple[SpecialToken, ...]
    eos_token_ids: tuple[int, ...]
    bos_token_id: int | None = None
    adds_bos: bool = False
    unsampled_ids: tuple[int, ...] = ()
    prefix_space: bool = False
    shown: tuple[bytes, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        shown = list(self.token_bytes)
        for special in self.specials:
            shown[special.token_id] = b""
        object.__setattr__(self, "shown", tuple(shown))


def end_of_generation(specials: Sequence[SpecialToken], declared: Sequence[int]) -> tuple[int, ...]:
    """End-of-generation set: the declared ids and the special tokens that mean an end."""
    known = {special.token_id for special in specials if special.text in _END_TEXTS}
    return tuple(sorted(known.union(declared)))


def _byte_of_character() -> Mapping[str, int]:
    """The GPT-2 alphabet: printable Latin-1 stands for itself, the other bytes follow at 256."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    table = {chr(byte): byte for byte in printable}
    others = (byte for byte in range(256) if byte not in printable)
    table.update({chr(256 + rank): byte for rank, byte in enumerate(others)})
    return table


_BYTE_OF_CHARACTER: Final = _byte_of_character()


def byte_level_bytes(token: str) -> bytes:
    """Bytes of a token written in the GPT-2 byte-level alphabet.

    A token with a character outside that alphabet (an added token) stands for itself.
    """
    try:
        return bytes([_BYTE_OF_CHARACTER[character] for character in token])
    except KeyError:
        return token.encode()
