"""Tokenizer from a Hugging Face directory: `tokenizer.json` and the files beside it.

Unlike GGUF, `tokenizer.json` says itself how text is cut, so its own pipeline runs. Only
byte-level BPE without a normalizer is taken: elsewhere the bytes of an id are not known
from its text alone, which streaming needs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tokenizers import Tokenizer as BpeLibrary

from paceline_engine.tokenizer.byte_pair import keep_specials_plain, plain_encoder
from paceline_engine.tokenizer.chat_template import ChatTemplate
from paceline_engine.tokenizer.errors import TokenizerLoadError, UnsupportedTokenizerError
from paceline_engine.tokenizer.tokenizer import Tokenizer
from paceline_engine.tokenizer.vocabulary import (
    SpecialToken,
    Vocabulary,
    byte_level_bytes,
    end_of_generation,
)

Json = Mapping[str, Any]

_BYTE_LEVEL: Final = "ByteLevel"


def load_hf_directory(folder: Path) -> Tokenizer:
    """Builds the tokenizer of a Hugging Face model directory.

    Read are `tokenizer.json` and, where they exist, `tokenizer_config.json`,
    `chat_template.jinja`, `generation_config.json` and `config.json` (end-of-generation
    ids). Rows that pad the embedding beyond the last token are no ids: nothing draws them.

    Raises:
        UnsupportedTokenizerError: The tokenizer is not byte-level BPE.
        TokenizerLoadError: A file is missing or broken.
    """
    description = _json(folder / "tokenizer.json", required=True)
    _refuse_unknown(description, folder)
    try:
        library = BpeLibrary.from_str(json.dumps(description))
    except Exception as error:  # the library raises nothing narrower
        raise TokenizerLoadError(f"{folder}/tokenizer.json is broken: {error}") from error
    options = _json(folder / "tokenizer_config.json")
    vocabulary = _vocabulary(library, description, options, folder)
    template = _template(folder, options, vocabulary)
    return Tokenizer(vocabulary, plain_encoder(keep_specials_plain(library)), template)


def _refuse_unknown(description: Json, folder: Path) -> None:
    kind = _section_type(description, "model", folder)
    decoder = _section_type(description, "decoder", folder)
    normalizer = _section_type(description, "normalizer", folder)
    if kind != "BPE" or decoder != _BYTE_LEVEL or description.get("normalizer") is not None:
        raise UnsupportedTokenizerError(
            f"{folder}/tokenizer.json: model {kind}, decoder {decoder}, normalizer {normalizer} "
            "is not supported (supported: byte-level BPE without normalizer)"
        )


def _section_type(description: Json, name: str, folder: Path) -> object:
    section = description.get(name)
    if section is None:
        return None
    if not isinstance(section, dict):
        raise TokenizerLoadError(
            f"{folder}/tokenizer.json is broken: {name} is not a JSON object; fetch the file again"
        )
    return section.get("type")


def _vocabulary(library: BpeLibrary, description: Json, options: Json, folder: Path) -> Vocabulary:
    added = description.get("added_tokens") or []
    table = {token_id: byte_level_bytes(text) for text, token_id in library.get_vocab().items()}
    table.update({token["id"]: token["content"].encode() for token in added})
    config = _json(folder / "config.json")
    specials = tuple(_special(token) for token in added if token.get("special"))
    bos = _bos(library, folder)
    return Vocabulary(
        token_bytes=tuple(table.get(token_id, b"") for token_id in range(max(table) + 1)),
        specials=specials,
        eos_token_ids=end_of_generation(specials, _declared_ends(library, options, folder, config)),
        bos_token_id=bos,
        adds_bos=bos is not None,
    )


def _special(token: Json) -> SpecialToken:
    return SpecialToken(
        text=token["content"],
        token_id=token["id"],
        strips_left=bool(token.get("lstrip")),
        strips_right=bool(token.get("rstrip")),
    )


def _bos(library: BpeLibrary, folder: Path) -> int | None:
    """The token that the post-processor puts before every prompt, if any."""
    wrapped = library.encode("", add_special_tokens=True).ids
    if len(wrapped) > 1:
        raise UnsupportedTokenizerError(
            f"{folder}/tokenizer.json puts {len(wrapped)} tokens around a prompt; "
            "at most one begin-of-sequence token is supported"
        )
    return wrapped[0] if wrapped else None


def _declared_ends(library: BpeLibrary, options: Json, folder: Path, config: Json) -> list[int]:
    named = _token_text(options, "eos_token")
    ids = [library.token_to_id(named)] if named else []
    for source in (_json(folder / "generation_config.json"), config):
        value = source.get("eos_token_id")
        ids += value if isinstance(value, list) else [value]
    return [token_id for token_id in ids if isinstance(token_id, int)]


def _template(folder: Path, options: Json, vocabulary: Vocabulary) -> ChatTemplate | None:
    source = _template_source(folder, options)
    if source is None:
        return None
    names = ("bos_token", "eos_token", "pad_token", "unk_token")
    variables = {name: _token_text(options, name) for name in names}
    return ChatTemplate(source, [token.text for token in vocabulary.specials], variables)


def _template_source(folder: Path, options: Json) -> str | None:
    path = folder / "chat_template.jinja"
    if path.is_file():
        return _text(path)
    source = options.get("chat_template")
    if isinstance(source, list):  # several templates by name
        named = [entry for entry in source if isinstance(entry, dict)]
        source = {entry.get("name"): entry.get("template") for entry in named}.get("default")
    return source if isinstance(source, str) else None


def _token_text(options: Json, name: str) -> str:
    value = options.get(name)
    text = value.get("content") if isinstance(value, Mapping) else value
    return text if isinstance(text, str) else ""


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise TokenizerLoadError(f"cannot read {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise TokenizerLoadError(f"{path} is broken: {error}; fetch the file again") from error


def _json(path: Path, *, required: bool = False) -> Json:
    if not path.is_file() and not required:
        return {}
    try:
        value = json.loads(_text(path))
    except (ValueError, RecursionError) as error:
        raise TokenizerLoadError(f"{path} is broken: {error}; fetch the file again") from error
    if not isinstance(value, dict):
        raise TokenizerLoadError(f"{path} is broken: not a JSON object; fetch the file again")
    return value
