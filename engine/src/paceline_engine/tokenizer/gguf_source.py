"""Tokenizer from a GGUF file's metadata."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeGuard

from paceline_engine.tokenizer.byte_pair import build_bpe, plain_encoder
from paceline_engine.tokenizer.chat_template import ChatTemplate
from paceline_engine.tokenizer.errors import TokenizerLoadError, UnsupportedTokenizerError
from paceline_engine.tokenizer.gguf_metadata import GgufValue, read_gguf_metadata
from paceline_engine.tokenizer.tokenizer import Tokenizer
from paceline_engine.tokenizer.vocabulary import (
    SpecialToken,
    Vocabulary,
    byte_level_bytes,
    end_of_generation,
)

_PREFIX: Final = "tokenizer."
_CONTROL: Final = 3
_USER_DEFINED: Final = 4
_UNUSED: Final = 5
_MODEL_KIND: Final = "gpt2"


def load_gguf(path: Path) -> Tokenizer:
    """Builds the tokenizer that a GGUF file describes.

    Raises:
        UnsupportedTokenizerError: Its kind is not supported.
        TokenizerLoadError: The file is missing or broken, or lacks a part.
    """
    metadata = read_gguf_metadata(path, lambda key: key.startswith(_PREFIX))
    try:
        return tokenizer_from_metadata(metadata)
    except UnsupportedTokenizerError as error:
        raise UnsupportedTokenizerError(f"{path}: {error}") from error
    except TokenizerLoadError as error:
        raise TokenizerLoadError(f"{path}: {error}") from error


def tokenizer_from_metadata(metadata: Mapping[str, GgufValue]) -> Tokenizer:
    """Builds a tokenizer from the `tokenizer.*` keys of a GGUF file.

    Raises:
        UnsupportedTokenizerError: Its kind is not supported.
        TokenizerLoadError: A key is missing or contradicts another.
    """
    kind = _text(metadata, "ggml.model")
    if kind != _MODEL_KIND:
        raise UnsupportedTokenizerError(
            f"tokenizer model {kind!r} is not supported (supported: {_MODEL_KIND}, byte-level BPE)"
        )
    tokens = _texts(metadata, "ggml.tokens")
    types = _types(metadata, len(tokens))
    vocabulary = _vocabulary(metadata, tokens, types)
    library = build_bpe(
        tokens,
        _texts(metadata, "ggml.merges"),
        _text(metadata, "ggml.pre"),
        specials=[token.text for token in vocabulary.specials],
        added=[tokens[i] for i, kind_ in enumerate(types) if kind_ == _USER_DEFINED],
    )
    return Tokenizer(vocabulary, plain_encoder(library), _template(metadata, tokens, vocabulary))


def _vocabulary(
    metadata: Mapping[str, GgufValue], tokens: list[str], types: list[int]
) -> Vocabulary:
    specials = tuple(
        SpecialToken(text=tokens[token_id], token_id=token_id)
        for token_id, kind in enumerate(types)
        if kind == _CONTROL
    )
    eos = [
        token_id
        for name in ("eos", "eot", "eom")
        if (token_id := _token_id(metadata, name, len(tokens))) is not None
    ]
    return Vocabulary(
        token_bytes=tuple(map(_bytes, tokens, types)),
        specials=specials,
        eos_token_ids=end_of_generation(specials, eos),
        bos_token_id=_token_id(metadata, "bos", len(tokens)),
        adds_bos=bool(metadata.get(_PREFIX + "ggml.add_bos_token", False)),
    )


def _bytes(token: str, kind: int) -> bytes:
    if kind == _UNUSED:
        return b""
    return token.encode() if kind in (_CONTROL, _USER_DEFINED) else byte_level_bytes(token)


def _template(
    metadata: Mapping[str, GgufValue], tokens: list[str], vocabulary: Vocabulary
) -> ChatTemplate | None:
    source = metadata.get(_PREFIX + "chat_template")
    if not isinstance(source, str):
        return None
    variables = {
        f"{name}_token": "" if token_id is None else tokens[token_id]
        for name in ("bos", "eos")
        for token_id in [_token_id(metadata, name, len(tokens))]
    }
    return ChatTemplate(source, [token.text for token in vocabulary.specials], variables)


def _token_id(metadata: Mapping[str, GgufValue], name: str, vocab_size: int) -> int | None:
    value = metadata.get(f"{_PREFIX}ggml.{name}_token_id")
    if value is None:
        return None
    if not isinstance(value, int) or not 0 <= value < vocab_size:
        raise TokenizerLoadError(f"{name}_token_id {value} is outside the vocabulary")
    return value


def _text(metadata: Mapping[str, GgufValue], name: str) -> str:
    value = metadata.get(_PREFIX + name)
    if not isinstance(value, str):
        raise TokenizerLoadError(f"metadata lacks the text {_PREFIX + name}")
    return value


def _texts(metadata: Mapping[str, GgufValue], name: str) -> list[str]:
    value = metadata.get(_PREFIX + name)
    if not _is_texts(value):
        raise TokenizerLoadError(f"metadata lacks the list {_PREFIX + name}")
    return value


def _is_texts(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, list) and bool(value) and isinstance(value[0], str)


def _types(metadata: Mapping[str, GgufValue], vocab_size: int) -> list[int]:
    value = metadata.get(_PREFIX + "ggml.token_type")
    if not isinstance(value, list) or len(value) != vocab_size:
        raise TokenizerLoadError(f"metadata lacks {_PREFIX}ggml.token_type for each token")
    return [int(kind) for kind in value]
