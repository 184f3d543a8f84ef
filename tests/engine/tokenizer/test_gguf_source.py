"""GGUF files that are not what they should be, each written byte by byte."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline_engine.tokenizer import (
    Tokenizer,
    TokenizerLoadError,
    UnsupportedTokenizerError,
    load_tokenizer,
)
from paceline_engine.tokenizer.gguf_source import tokenizer_from_metadata, tokenizer_metadata

TINY: dict[str, Any] = {
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "smollm",
    "tokenizer.ggml.tokens": ["<s>", "a", "b", "ab", "<unused>", "Ġ", "<user>"],
    "tokenizer.ggml.token_type": [3, 1, 1, 1, 5, 1, 4],
    "tokenizer.ggml.merges": ["a b"],
    "tokenizer.ggml.bos_token_id": 0,
    "tokenizer.ggml.eos_token_id": 0,
    "tokenizer.ggml.add_bos_token": True,
    "tokenizer.chat_template": "{{ bos_token }}{{ messages[0].content }}",
}


def _string(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def _value(value: Any) -> bytes:
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + _string(value)
    if isinstance(value[0], str):
        return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(_string, value))
    return struct.pack(f"<IIQ{len(value)}i", 9, 5, len(value), *value)


def file_of(metadata: dict[str, Any], version: int = 3) -> bytes:
    head = b"GGUF" + struct.pack("<IQQ", version, 0, len(metadata))
    return head + b"".join(_string(key) + _value(value) for key, value in metadata.items())


def loaded(tmp_path: Path, content: bytes) -> Tokenizer:
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    return load_tokenizer(str(path))


@pytest.mark.parametrize("version", [2, 3])
def test_a_whole_file(tmp_path: Path, version: int) -> None:
    tokenizer = loaded(tmp_path, file_of(TINY, version))
    assert tokenizer.encode("ab b<user>") == [0, 3, 5, 2, 6]
    assert tokenizer.decode([3, 5, 4, 6]) == "ab <user>"
    assert tokenizer.eos_token_ids == (0,)
    assert tokenizer.apply_chat_template([{"role": "user", "content": "a"}]) == [0, 1]


def test_other_keys_are_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(file_of({"a.b": 5, "tokenizer.d": ["x", "é"]}))
    assert tokenizer_metadata(path) == {"tokenizer.d": ["x", "é"]}


@pytest.mark.behaviour(
    "unused ids of a GGUF vocabulary are never drawn: at its end they are no ids",
    report="padding tokens of a GGUF file are sampled and end in an error or in noise",
)
def test_unused_ids_are_not_drawn() -> None:
    padded = TINY | {
        "tokenizer.ggml.tokens": [*TINY["tokenizer.ggml.tokens"], "[PAD7]", "[PAD8]"],
        "tokenizer.ggml.token_type": [*TINY["tokenizer.ggml.token_type"], 5, 5],
    }
    tokenizer = tokenizer_from_metadata(padded)
    assert tokenizer.vocab_size == 7
    assert tokenizer.unsampled_ids == (4,)
    assert tokenizer.encode("[PAD7]<unused>", parse_special=True).count(4) == 0


@pytest.mark.parametrize(
    ("kind", "key", "begins"),
    [
        ("smollm", None, False),
        ("smollm", True, True),
        ("qwen2", None, False),
        ("llama-bpe", None, True),
        ("llama3", None, True),
        ("llama-bpe", False, False),
    ],
)
def test_whether_a_prompt_has_a_bos(kind: str, key: bool | None, begins: bool) -> None:
    """Where the file is silent the kind decides, as in llama.cpp."""
    metadata = TINY | {"tokenizer.ggml.pre": kind}
    metadata.pop("tokenizer.ggml.add_bos_token")
    if key is not None:
        metadata["tokenizer.ggml.add_bos_token"] = key
    expected = [0, 2] if begins else [2]
    assert tokenizer_from_metadata(metadata).encode("b") == expected


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"ggml.model": "t5"}, UnsupportedTokenizerError, "tokenizer model 't5'"),
        ({"ggml.pre": "default"}, UnsupportedTokenizerError, "pre-tokenizer 'default'"),
        ({"ggml.add_eos_token": True}, UnsupportedTokenizerError, "end with a token"),
        ({"ggml.token_type": [5] * 7}, TokenizerLoadError, "every token is marked as unused"),
        ({"ggml.add_bos_token": "x"}, TokenizerLoadError, "neither true nor false"),
        ({"ggml.pre": "mystery"}, UnsupportedTokenizerError, "pre-tokenizer 'mystery'"),
        ({"ggml.model": 5}, TokenizerLoadError, "lacks the text tokenizer.ggml.model"),
        ({"ggml.tokens": "x"}, TokenizerLoadError, "lacks the list tokenizer.ggml.tokens"),
        ({"ggml.token_type": [1]}, TokenizerLoadError, "token_type for each token"),
        ({"ggml.merges": ["a q"]}, TokenizerLoadError, "vocabulary and merges do not fit"),
        ({"ggml.bos_token_id": 7}, TokenizerLoadError, "bos_token_id 7 is outside"),
        ({"ggml.tokens": ["a"] * 7}, TokenizerLoadError, "two ids share one token text"),
        ({"chat_template": "{% if %}"}, TokenizerLoadError, "chat template, line 1"),
    ],
)
def test_what_does_not_fit_is_one_line_with_the_file(
    tmp_path: Path, change: dict[str, Any], error: type[TokenizerLoadError], message: str
) -> None:
    changed = TINY | {f"tokenizer.{key}": value for key, value in change.items()}
    with pytest.raises(error) as refused:
        loaded(tmp_path, file_of(changed))
    assert type(refused.value) is error
    assert message in str(refused.value)
    assert "m.gguf" in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a GGUF file"),
        (b"GG", "not a GGUF file"),
        (b"PK\x03\x04" + bytes(64), "not a GGUF file"),
        (file_of(TINY, version=1), "version 1"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 2**40), "damaged"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 2**63), "damaged"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + _string("k") + struct.pack("<I", 99), "damaged"),
        (
            b"GGUF"
            + struct.pack("<IQQ", 3, 0, 1)
            + _string("k")
            + struct.pack("<IIQ", 9, 5, 2**62),
            "damaged",
        ),
    ],
)
def test_what_is_not_gguf_is_one_line(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(TokenizerLoadError, match=message) as refused:
        loaded(tmp_path, content)
    assert "\n" not in str(refused.value)


@given(cut=st.integers(0, len(file_of(TINY)) - 1))
def test_a_file_cut_anywhere_is_refused(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    with pytest.raises(TokenizerLoadError):
        loaded(tmp_path_factory.mktemp("cut"), file_of(TINY)[:cut])


def test_without_a_template_there_is_none() -> None:
    metadata = {key: value for key, value in TINY.items() if "template" not in key}
    assert not tokenizer_from_metadata(metadata).has_chat_template
