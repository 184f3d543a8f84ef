"""Token ids against llama.cpp's own, for every supported pre-tokenizer kind."""

from __future__ import annotations

import hashlib
import itertools
import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from paceline_engine.tokenizer import Tokenizer
from paceline_engine.tokenizer.byte_pair import KINDS
from paceline_engine.tokenizer.gguf_source import tokenizer_from_metadata, tokenizer_metadata
from paceline_engine.weights.gguf_header import GgufValue
from tests.engine.tokenizer.fixtures.digits import merge_digits
from tests.engine.tokenizer.fixtures.texts import COUNT, texts

FIXTURE = Path(__file__).parent / "fixtures" / "llama_cpp_ids.json"
RECORD: dict[str, Any] = json.loads(FIXTURE.read_text())


def test_the_fixture_is_of_these_texts_and_every_supported_kind() -> None:
    assert RECORD["texts"] == texts()
    assert len(RECORD["texts"]) == COUNT == 200
    assert set(RECORD["kinds"]) == set(KINDS)


def test_the_fixture_tells_the_kinds_apart() -> None:
    for one, other in itertools.combinations(RECORD["kinds"].values(), 2):
        pairs = zip(one["plain"], other["plain"], strict=True)
        assert sum(a != b for a, b in pairs) >= 40


@pytest.mark.model
def test_the_fixture_was_made_with_this_model_file(model_path: Path) -> None:
    assert hashlib.sha256(model_path.read_bytes()).hexdigest() == RECORD["model_sha256"]


@pytest.mark.model
def test_model_file_gives_llama_cpp_ids(smollm2: Tokenizer) -> None:
    _assert_equal(smollm2, RECORD["as_it_is"])


@pytest.mark.model
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_kind_gives_llama_cpp_ids(model_path: Path, kind: str) -> None:
    metadata = tokenizer_metadata(model_path)
    tokens, merges = merge_digits(_texts(metadata, "tokens"), _texts(metadata, "merges"))
    changed: dict[str, GgufValue] = {
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.pre": kind,
    }
    tokenizer = tokenizer_from_metadata({**metadata, **changed})
    _assert_equal(tokenizer, RECORD["kinds"][kind], composed_only=KINDS[kind].composes)


def _texts(metadata: dict[str, GgufValue], name: str) -> list[str]:
    value = metadata[f"tokenizer.ggml.{name}"]
    assert isinstance(value, list)
    return [str(text) for text in value]


def _assert_equal(
    tokenizer: Tokenizer, recorded: dict[str, Any], *, composed_only: bool = False
) -> None:
    """llama.cpp never composes characters; a kind that does can differ on other texts."""
    for index, text in enumerate(RECORD["texts"]):
        if composed_only and not unicodedata.is_normalized("NFC", text):
            continue
        plain = recorded["plain"][index]
        special = recorded["special"].get(str(index), plain)
        assert tokenizer.encode(text, parse_special=False) == plain, repr(text[:80])
        assert tokenizer.encode(text) == special, repr(text[:80])
