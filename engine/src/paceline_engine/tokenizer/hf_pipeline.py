"""Which pipelines of `tokenizer.json` are known well enough to decode their ids one by one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tokenizers import Tokenizer as BpeLibrary

from paceline_engine.tokenizer.byte_pair import keep_specials_plain
from paceline_engine.tokenizer.errors import TokenizerLoadError, UnsupportedTokenizerError
from paceline_engine.tokenizer.sentence_piece import SPACE, byte_of, check_bytes, piece_bytes
from paceline_engine.tokenizer.vocabulary import byte_level_bytes

Json = Mapping[str, Any]

_SPACES_DECODED: Final = {"type": "Replace", "pattern": {"String": SPACE}, "content": " "}
_SPACES_WRITTEN: Final = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
_PREFIX_WRITTEN: Final = {"type": "Prepend", "prepend": SPACE}
_PREFIX_CUT: Final = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
_SCHEMES: Final = ("always", "first", "never")


@dataclass(frozen=True, slots=True)
class Pipeline:
    """How a vocabulary's texts become bytes.

    Attributes:
        token_bytes: Bytes of an ordinary token.
        prefix_space: Whether decoding takes away a space at the beginning of a text.
        begins_only: Whether that space is put before the beginning of a prompt only, and not
            before text after a special token.
    """

    token_bytes: Callable[[str], bytes]
    prefix_space: bool = False
    begins_only: bool = False


def pipeline_of(description: Json) -> Pipeline:
    """The pipeline that `tokenizer.json` describes.

    Raises:
        UnsupportedTokenizerError: It is another than byte-level BPE, with characters composed
            (NFC) or not, or SentencePiece's BPE.
        TokenizerLoadError: A part is no JSON object, or a byte is missing.
    """
    model, decoder = _part(description, "model"), _part(description, "decoder")
    normalizer = _part(description, "normalizer")
    if model.get("type") == "BPE":
        if decoder.get("type") == "ByteLevel" and normalizer.get("type") in (None, "NFC"):
            return Pipeline(byte_level_bytes)
        pieces = _pieces(description)
        if model.get("byte_fallback") is True and pieces is not None:
            vocabulary = model.get("vocab")
            check_bytes(list(vocabulary) if isinstance(vocabulary, dict) else [])
            return pieces
    raise UnsupportedTokenizerError(
        f"model {model.get('type')}, decoder {decoder.get('type')}, normalizer "
        f"{normalizer.get('type')} is not supported (supported: byte-level BPE without "
        "normalizer or with NFC, and SentencePiece's BPE)"
    )


def without_forging(description: Json, added: Sequence[Json]) -> Json:
    """The same without merges that make a special token out of plain text."""
    specials = {token["content"] for token in added if token.get("special")}
    model = description["model"]
    merges = model.get("merges")
    if not isinstance(merges, list):
        return description
    kept = [merge for merge in merges if _made_by(merge) not in specials]
    return {**description, "model": {**model, "merges": kept}}


def _made_by(merge: object) -> str:
    """The token that a merge makes; merges are pairs, or texts with a space between."""
    parts = merge.split(" ", 1) if isinstance(merge, str) else merge
    if isinstance(parts, list) and all(isinstance(part, str) for part in parts):
        return "".join(parts)
    return ""  # the library says what is wrong with it


def without_prefix(description: Json) -> BpeLibrary:
    """The same tokenizer for text that does not begin a prompt."""
    changed = {**description, "pre_tokenizer": {**description["pre_tokenizer"]}}
    changed["pre_tokenizer"]["prepend_scheme"] = "never"
    changed["post_processor"] = None
    return keep_specials_plain(BpeLibrary.from_str(json.dumps(changed)))


def _pieces(description: Json) -> Pipeline | None:
    """SentencePiece's BPE as transformers writes it: a normalizer, or a pre-tokenizer."""
    decoder = _part(description, "decoder")
    steps = decoder.get("decoders") if decoder.get("type") == "Sequence" else None
    inner = [_SPACES_DECODED, {"type": "ByteFallback"}, {"type": "Fuse"}]
    if steps not in (inner, [*inner, _PREFIX_CUT]):
        return None
    cuts = len(steps) > len(inner)
    normalizer, before = _part(description, "normalizer"), _part(description, "pre_tokenizer")
    if not before and normalizer in (
        {"type": "Sequence", "normalizers": [_PREFIX_WRITTEN, _SPACES_WRITTEN]},
        {"type": "Sequence", "normalizers": [_SPACES_WRITTEN]},
        _SPACES_WRITTEN,
    ):
        return Pipeline(_piece_or_byte, prefix_space=cuts)
    scheme = before.get("prepend_scheme")
    is_plain = before.get("replacement") == SPACE and before.get("split") is False
    if not normalizer and before.get("type") == "Metaspace" and is_plain and scheme in _SCHEMES:
        return Pipeline(_piece_or_byte, prefix_space=cuts, begins_only=scheme == "first")
    return None


def _piece_or_byte(token: str) -> bytes:
    byte = byte_of(token)
    return piece_bytes(token) if byte is None else byte


def _part(description: Json, name: str) -> Json:
    part = description.get(name)
    if part is None:
        return {}
    if not isinstance(part, dict):
        raise TokenizerLoadError(f"is broken: {name} is not a JSON object; fetch the file again")
    return part
