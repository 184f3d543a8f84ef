"""Token ids against llama.cpp's own, for every supported pre-tokenizer kind."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from paceline_engine.tokenizer import Tokenizer, load_tokenizer
from paceline_engine.tokenizer.byte_pair import KINDS
from paceline_engine.tokenizer.gguf_metadata import read_gguf_metadata
from paceline_engine.tokenizer.gguf_source import tokenizer_from_metadata
from tests.engine.tokenizer.fixtures.texts import COUNT, texts

FIXTURE = Path(__file__).parent / "fixtures" / "llama_cpp_ids.json"
RECORD: dict[str, Any] = json.loads(FIXTURE.read_text())


def model_path() -> Path:
    cache = Path(os.environ.get("PACELINE_CACHE", "~/.cache/paceline")).expanduser()
    default = cache / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
    return Path(os.environ.get("PACELINE_MODEL", default))


def expected_special(kind: str, index: int) -> list[int]:
    recorded = RECORD["kinds"][kind]
    ids: list[int] = recorded["special"].get(str(index), recorded["plain"][index])
    return ids


def test_fixture_holds_the_200_texts_and_every_supported_kind() -> None:
    assert RECORD["texts"] == texts()
    assert len(RECORD["texts"]) == COUNT
    assert set(RECORD["kinds"]) == set(KINDS)
    assert len({json.dumps(kind["plain"]) for kind in RECORD["kinds"].values()}) == len(KINDS)


@pytest.mark.model
def test_model_file_gives_llama_cpp_ids() -> None:
    tokenizer = load_tokenizer(str(model_path()))
    _assert_equal(tokenizer, "smollm")


@pytest.mark.model
@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"smollm"}))
def test_other_kinds_give_llama_cpp_ids(kind: str) -> None:
    metadata = read_gguf_metadata(model_path(), lambda key: key.startswith("tokenizer."))
    metadata["tokenizer.ggml.pre"] = kind
    _assert_equal(tokenizer_from_metadata(metadata), kind)


def _assert_equal(tokenizer: Tokenizer, kind: str) -> None:
    plain = RECORD["kinds"][kind]["plain"]
    for index, text in enumerate(RECORD["texts"]):
        assert tokenizer.encode(text, parse_special=False) == plain[index], repr(text[:80])
        assert tokenizer.encode(text) == expected_special(kind, index), repr(text[:80])
