"""Tokenizer from a Hugging Face directory: `tokenizer.json` and the files beside it.

Unlike GGUF, `tokenizer.json` says itself how text is cut, so its own pipeline runs. Only
pipelines of `hf_pipeline` are taken: elsewhere the bytes of an id are not known from its
text alone, which streaming needs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tokenizers import Tokenizer as BpeLibrary

from paceline_engine.tokenizer.byte_pair import (
    keep_specials_plain,
    library_errors,
    plain_encoder,
)
from paceline_engine.tokenizer.chat_template import ChatTemplate
from paceline_engine.tokenizer.errors import TokenizerLoadError, UnsupportedTokenizerError
from paceline_engine.tokenizer.hf_pipeline import (
    Pipeline,
    pipeline_of,
    without_forging,
    without_prefix,
)
from paceline_engine.tokenizer.hf_prompt import begin_of_sequence
from paceline_engine.tokenizer.tokenizer import Tokenizer
from paceline_engine.tokenizer.vocabulary import SpecialToken, Vocabulary, end_of_generation
from paceline_engine.weights.errors import CheckpointError
from paceline_engine.weights.file import ModelFile
from paceline_engine.weights.json_object import read_json_object, read_json_object_if_there

Json = Mapping[str, Any]

_FILE: Final = "tokenizer.json"
# A text of several kinds of characters, so that a pipeline that cannot run says so at once.
_TRIAL: Final = "The 12th r\u00e4der's pace:\n\t\u6f22 \U0001f6b4!"
# Far above any vocabulary; an id is an index into tables.
_MOST_IDS: Final = 1 << 24


def load_hf_directory(folder: Path) -> Tokenizer:
    """Builds the tokenizer of a Hugging Face model directory.

    Read are `tokenizer.json` and, where they exist, `tokenizer_config.json`,
    `chat_template.jinja`, `generation_config.json` and `config.json` (end-of-generation
    ids). Rows that pad the embedding beyond the last token are no ids: nothing draws them.

    Raises:
        UnsupportedTokenizerError: The tokenizer is of no known kind.
        TokenizerLoadError: A file is missing or broken.
    """
    path = folder / _FILE
    try:
        return _load(folder)
    except CheckpointError as error:
        raise TokenizerLoadError(str(error)) from error
    except UnsupportedTokenizerError as error:
        raise UnsupportedTokenizerError(f"{path}: {error}") from error
    except TokenizerLoadError as error:
        raise TokenizerLoadError(f"{path}: {error}") from error


def _load(folder: Path) -> Tokenizer:
    description: Json = read_json_object(folder / _FILE)
    pipeline = pipeline_of(description)
    description = without_forging(description, _added(description))
    with library_errors("is broken"):
        library = BpeLibrary.from_str(json.dumps({**description, "post_processor": None}))
        library.encode(_TRIAL, add_special_tokens=False)
    options = read_json_object_if_there(folder / "tokenizer_config.json")
    vocabulary = _vocabulary(library, description, options, folder, pipeline)
    return Tokenizer(
        vocabulary,
        plain_encoder(keep_specials_plain(library)),
        _template(folder, options, vocabulary),
        plain_encoder(without_prefix(description)) if pipeline.begins_only else None,
    )


def _added(description: Json) -> list[Json]:
    """Entries for tokens that are matched whole."""
    added = description.get("added_tokens") or []
    for token in added if isinstance(added, list) else [added]:
        is_entry = isinstance(token, dict) and isinstance(token.get("content"), str)
        if not is_entry or type(token.get("id")) is not int or not token["content"]:
            raise TokenizerLoadError(f"is broken: {str(token)[:60]} is no added token")
    return list(added)


def _vocabulary(
    library: BpeLibrary, description: Json, options: Json, folder: Path, pipeline: Pipeline
) -> Vocabulary:
    added = _added(description)
    table = {token_id: pipeline.token_bytes(text) for text, token_id in library.get_vocab().items()}
    table.update({token["id"]: token["content"].encode() for token in added})
    if not table or max(table) >= _MOST_IDS or min(table) < 0:
        raise TokenizerLoadError("is broken: it has no ids, or ids out of all proportion")
    count = max(table) + 1
    specials = tuple(_special(token) for token in added if token.get("special"))
    bos = begin_of_sequence(description, count)
    return Vocabulary(
        token_bytes=tuple(table.get(token_id, b"") for token_id in range(count)),
        specials=specials,
        eos_token_ids=end_of_generation(specials, _declared_ends(library, options, folder, count)),
        bos_token_id=bos,
        adds_bos=bos is not None,
        unsampled_ids=tuple(token_id for token_id in range(count) if token_id not in table),
        prefix_space=pipeline.prefix_space,
    )


def _special(token: Json) -> SpecialToken:
    return SpecialToken(
        text=token["content"],
        token_id=token["id"],
        strips_left=bool(token.get("lstrip")),
        strips_right=bool(token.get("rstrip")),
    )


def _declared_ends(library: BpeLibrary, options: Json, folder: Path, count: int) -> list[int]:
    named = _token_text(options, "eos_token")
    ids: list[object] = [library.token_to_id(named)] if named else []
    for name in ("generation_config.json", "config.json"):
        value = read_json_object_if_there(folder / name).get("eos_token_id")
        ids += value if isinstance(value, list) else [value]
    return [_end(token_id, count) for token_id in ids if token_id is not None]


def _end(token_id: object, count: int) -> int:
    if type(token_id) is not int or not 0 <= token_id < count:
        raise TokenizerLoadError(f"eos_token_id {str(token_id)[:60]} is none of its {count} ids")
    return token_id


def _template(folder: Path, options: Json, vocabulary: Vocabulary) -> ChatTemplate | None:
    source = _template_source(folder, options)
    if source is None:
        return None
    names = ("bos_token", "eos_token", "pad_token", "unk_token")
    variables = {name: _token_text(options, name) for name in names}
    return ChatTemplate(source, [token.text for token in vocabulary.specials], variables)


def _template_source(folder: Path, options: Json) -> str | None:
    path = folder / "chat_template.jinja"
    if os.path.exists(path):
        return _text(path)
    source = options.get("chat_template")
    if isinstance(source, list):  # several templates by name
        named = [entry for entry in source if isinstance(entry, dict)]
        source = next((e.get("template") for e in named if e.get("name") == "default"), None)
    return source if isinstance(source, str) else None


def _token_text(options: Json, name: str) -> str:
    value = options.get(name)
    text = value.get("content") if isinstance(value, Mapping) else value
    return text if isinstance(text, str) else ""


def _text(path: Path) -> str:
    with ModelFile(path) as file:
        try:
            return file.read(0, file.size).decode("utf-8")
        except UnicodeDecodeError as error:
            raise TokenizerLoadError(f"beside it {path.name} is broken: {error}") from error
