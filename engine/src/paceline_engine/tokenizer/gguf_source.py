"""Tokenizer from a GGUF file's metadata."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from paceline_engine.tokenizer.byte_pair import build_bpe, kind_named, plain_encoder
from paceline_engine.tokenizer.chat_template import ChatTemplate
from paceline_engine.tokenizer.errors import TokenizerLoadError, UnsupportedTokenizerError
from paceline_engine.tokenizer.sentence_piece import build_pieces, byte_of, piece_bytes
from paceline_engine.tokenizer.tokenizer import Tokenizer
from paceline_engine.tokenizer.vocabulary import (
    SpecialToken,
    Vocabulary,
    byte_level_bytes,
    end_of_generation,
)
from paceline_engine.weights.errors import CheckpointError
from paceline_engine.weights.file import ModelFile
from paceline_engine.weights.gguf_header import GgufValue, read_header

_PREFIX: Final = "tokenizer."
_UNKNOWN: Final = 2
_CONTROL: Final = 3
_USER_DEFINED: Final = 4
_UNUSED: Final = 5
_BYTE: Final = 6
_BYTE_LEVEL: Final = "gpt2"
_PIECES: Final = "llama"


class _Tokens(NamedTuple):
    """Texts and types of all ids that may be drawn or decoded."""

    texts: list[str]
    kinds: list[int]

    def of_kind(self, *kinds: int) -> list[str]:
        return [text for text, kind in zip(*self, strict=True) if kind in kinds]

    def ids_of_kind(self, *kinds: int) -> list[int]:
        return [token_id for token_id, kind in enumerate(self.kinds) if kind in kinds]


def load_gguf(path: Path) -> Tokenizer:
    """Builds the tokenizer that a GGUF file describes.

    Raises:
        UnsupportedTokenizerError: Its kind is not supported.
        TokenizerLoadError: The file is missing or broken, or lacks a part.
    """
    try:
        metadata = tokenizer_metadata(path)
    except CheckpointError as error:
        raise TokenizerLoadError(str(error)) from error
    try:
        return tokenizer_from_metadata(metadata)
    except UnsupportedTokenizerError as error:
        raise UnsupportedTokenizerError(f"{path}: {error}") from error
    except TokenizerLoadError as error:
        raise TokenizerLoadError(f"{path}: {error}") from error


def tokenizer_metadata(path: Path) -> dict[str, GgufValue]:
    """The keys of the GGUF file at `path` that describe its tokenizer.

    Raises:
        CheckpointError: The file is missing or broken.
    """
    with ModelFile(path) as file:
        return read_header(file, lambda key: key.startswith(_PREFIX)).metadata


def tokenizer_from_metadata(metadata: Mapping[str, GgufValue]) -> Tokenizer:
    """Builds a tokenizer from the `tokenizer.*` keys of a GGUF file.

    Raises:
        UnsupportedTokenizerError: Its kind is not supported.
        TokenizerLoadError: A key is missing or contradicts another.
    """
    model = _text(metadata, "ggml.model")
    if _flag(metadata, "add_eos_token", default=False):
        raise UnsupportedTokenizerError("prompts would end with a token, which is not supported")
    if model == _BYTE_LEVEL:
        return _byte_level(metadata)
    if model == _PIECES:
        return _pieces(metadata)
    raise UnsupportedTokenizerError(
        f"tokenizer model {model!r} is not supported (supported: {_BYTE_LEVEL}, byte-level BPE, "
        f"and {_PIECES}, SentencePiece's BPE)"
    )


def _byte_level(metadata: Mapping[str, GgufValue]) -> Tokenizer:
    tokens, kind = _tokens(metadata), _text(metadata, "ggml.pre")
    specials = _specials(tokens, _CONTROL)
    bos = _token_id(metadata, "bos", tokens, None)
    vocabulary = Vocabulary(
        token_bytes=tuple(map(_byte_level_bytes, *tokens)),
        specials=specials,
        eos_token_ids=_ends(metadata, tokens, specials, None),
        bos_token_id=bos,
        adds_bos=_flag(metadata, "add_bos_token", default=kind_named(kind).adds_bos),
        unsampled_ids=tuple(tokens.ids_of_kind(_UNUSED)),
    )
    library = build_bpe(
        tokens.texts,
        _texts(metadata, "ggml.merges"),
        kind,
        specials=[token.text for token in specials],
        added=tokens.of_kind(_USER_DEFINED),
    )
    template = _template(metadata, tokens, vocabulary)
    return Tokenizer(vocabulary, plain_encoder(library), template)


def _pieces(metadata: Mapping[str, GgufValue]) -> Tokenizer:
    """Defaults are llama.cpp's: ids 1 and 2 begin and end, a space goes before a text."""
    for key in ("precompiled_charsmap", "remove_extra_whitespaces"):
        if metadata.get(f"{_PREFIX}ggml.{key}"):
            raise UnsupportedTokenizerError(f"a tokenizer with {key} is not supported")
    tokens = _tokens(metadata)
    specials = _specials(tokens, _CONTROL, _UNKNOWN)
    prefix_space = _flag(metadata, "add_space_prefix", default=True)
    vocabulary = Vocabulary(
        token_bytes=tuple(map(_piece_bytes, *tokens)),
        specials=specials,
        eos_token_ids=_ends(metadata, tokens, specials, 2),
        bos_token_id=_token_id(metadata, "bos", tokens, 1),
        adds_bos=_flag(metadata, "add_bos_token", default=True),
        unsampled_ids=tuple(tokens.ids_of_kind(_UNUSED)),
        prefix_space=prefix_space,
    )
    library = build_pieces(
        tokens.texts,
        _scores(metadata, tokens),
        specials=[token.text for token in specials],
        added=tokens.of_kind(_USER_DEFINED),
        prefix_space=prefix_space,
    )
    template = _template(metadata, tokens, vocabulary)
    return Tokenizer(vocabulary, plain_encoder(library), template)


def _tokens(metadata: Mapping[str, GgufValue]) -> _Tokens:
    """Without the unused ids at the end, which pad the embedding."""
    texts = _texts(metadata, "ggml.tokens")
    kinds = metadata.get(_PREFIX + "ggml.token_type")
    if not isinstance(kinds, list) or len(kinds) != len(texts):
        raise TokenizerLoadError(f"metadata lacks {_PREFIX}ggml.token_type for each token")
    used = len(texts)
    while used and kinds[used - 1] == _UNUSED:
        used -= 1
    if not used:
        raise TokenizerLoadError("every token is marked as unused")
    return _Tokens(texts[:used], [_whole(kind) for kind in kinds[:used]])


def _whole(kind: object) -> int:
    if isinstance(kind, bool) or not isinstance(kind, int):
        raise TokenizerLoadError(f"a token type is {kind!r}")
    return kind


def _specials(tokens: _Tokens, *kinds: int) -> tuple[SpecialToken, ...]:
    return tuple(
        SpecialToken(text=tokens.texts[token_id], token_id=token_id)
        for token_id in tokens.ids_of_kind(*kinds)
        if tokens.texts[token_id]
    )


def _ends(
    metadata: Mapping[str, GgufValue],
    tokens: _Tokens,
    specials: tuple[SpecialToken, ...],
    default: int | None,
) -> tuple[int, ...]:
    declared = [
        _token_id(metadata, name, tokens, default if name == "eos" else None)
        for name in ("eos", "eot", "eom")
    ]
    return end_of_generation(specials, [token_id for token_id in declared if token_id is not None])


def _byte_level_bytes(token: str, kind: int) -> bytes:
    if kind == _UNUSED:
        return b""
    return token.encode() if kind in (_CONTROL, _USER_DEFINED) else byte_level_bytes(token)


def _piece_bytes(token: str, kind: int) -> bytes:
    if kind == _UNUSED:
        return b""
    if kind == _BYTE:
        byte = byte_of(token)
        if byte is None:
            raise TokenizerLoadError(f"token {token!r} is marked as a byte and is none")
        return byte
    return token.encode() if kind == _CONTROL else piece_bytes(token)


def _scores(metadata: Mapping[str, GgufValue], tokens: _Tokens) -> dict[str, float]:
    """Scores of the tokens that text may become; control tokens are not among them."""
    scores = metadata.get(_PREFIX + "ggml.scores")
    if not isinstance(scores, list) or len(scores) < len(tokens.texts):
        raise TokenizerLoadError(f"metadata lacks {_PREFIX}ggml.scores for each token")
    numbers = [float(score) for score in scores if isinstance(score, int | float)]
    if len(numbers) != len(scores):
        raise TokenizerLoadError("a token's score is no number")
    others = set(tokens.of_kind(_CONTROL, _UNKNOWN, _UNUSED, _BYTE))
    by_text = dict(zip(tokens.texts, numbers, strict=False))
    return {text: score for text, score in by_text.items() if text not in others}


def _template(
    metadata: Mapping[str, GgufValue], tokens: _Tokens, vocabulary: Vocabulary
) -> ChatTemplate | None:
    source = metadata.get(_PREFIX + "chat_template")
    if not isinstance(source, str):
        return None
    ends = _token_id(metadata, "eos", tokens, None)
    ids = {"bos_token": vocabulary.bos_token_id, "eos_token": ends}
    variables = {
        name: "" if token_id is None else tokens.texts[token_id] for name, token_id in ids.items()
    }
    return ChatTemplate(source, [token.text for token in vocabulary.specials], variables)


def _token_id(
    metadata: Mapping[str, GgufValue], name: str, tokens: _Tokens, default: int | None
) -> int | None:
    value = metadata.get(f"{_PREFIX}ggml.{name}_token_id", default)
    if value is None:
        return None
    if not isinstance(value, int) or not 0 <= value < len(tokens.texts):
        raise TokenizerLoadError(f"{name}_token_id {value} is outside the vocabulary")
    return value


def _flag(metadata: Mapping[str, GgufValue], name: str, *, default: bool) -> bool:
    value = metadata.get(f"{_PREFIX}ggml.{name}", default)
    if not isinstance(value, bool):
        raise TokenizerLoadError(f"{name} {value!r} is neither true nor false")
    return value


def _text(metadata: Mapping[str, GgufValue], name: str) -> str:
    value = metadata.get(_PREFIX + name)
    if not isinstance(value, str):
        raise TokenizerLoadError(f"metadata lacks the text {_PREFIX + name}")
    return value


def _texts(metadata: Mapping[str, GgufValue], name: str) -> list[str]:
    value = metadata.get(_PREFIX + name)
    if isinstance(value, list) and value and isinstance(value[0], str):
        return [text for text in value if isinstance(text, str)]
    raise TokenizerLoadError(f"metadata lacks the list {_PREFIX + name}")
