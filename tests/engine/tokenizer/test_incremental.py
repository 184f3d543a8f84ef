"""Streamed text equals the whole text, however its bytes fall over tokens."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline_engine.tokenizer import IncrementalDecoder, Tokenizer
from paceline_engine.tokenizer.vocabulary import SpecialToken, Vocabulary

BYTES = Vocabulary(
    token_bytes=(*(bytes([byte]) for byte in range(256)), b"<end>"),
    specials=(SpecialToken(text="<end>", token_id=256),),
    eos_token_ids=(256,),
)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))


def pushed(decoder: IncrementalDecoder, ids: list[int]) -> list[str]:
    return [decoder.push([token_id]) for token_id in ids] + [decoder.flush()]


@given(TEXT)
def test_each_code_point_comes_with_its_last_byte(text: str) -> None:
    decoder = IncrementalDecoder(BYTES)
    for character in text:
        *first, last = character.encode()
        assert [decoder.push([byte]) for byte in first] == [""] * len(first)
        assert decoder.push([last]) == character
    assert decoder.flush() == ""


@given(st.lists(st.integers(0, 255)))
def test_any_bytes_give_what_decoding_at_once_gives(values: list[int]) -> None:
    expected = bytes(values).decode(errors="replace")
    assert "".join(pushed(IncrementalDecoder(BYTES), values)) == expected


@given(st.lists(st.lists(st.integers(0, 256)), max_size=8))
def test_how_tokens_are_grouped_does_not_matter(groups: list[list[int]]) -> None:
    decoder = IncrementalDecoder(BYTES)
    grouped = "".join(decoder.push(group) for group in groups) + decoder.flush()
    flat = [token_id for group in groups for token_id in group]
    assert grouped == "".join(pushed(IncrementalDecoder(BYTES), flat))


def test_an_unfinished_code_point_ends_as_a_replacement() -> None:
    decoder = IncrementalDecoder(BYTES)
    assert decoder.push("é".encode()[:1]) == ""
    assert decoder.flush() == "\ufffd"


def test_special_tokens_show_on_request_only() -> None:
    ids = [*b"a", 256, *b"b"]
    assert "".join(pushed(IncrementalDecoder(BYTES), ids)) == "ab"
    assert "".join(pushed(IncrementalDecoder(BYTES, skip_special=False), ids)) == "a<end>b"


def test_an_id_outside_the_vocabulary_is_an_error() -> None:
    with pytest.raises(IndexError):
        IncrementalDecoder(BYTES).push([257])


# SmolLM2 has no token for these characters or for bytes 0xF1 and 0xF2 (planes 4 to 11), and
# leaves them out of a text, as llama.cpp does with this vocabulary.
COVERED = st.characters(
    exclude_categories=["Cs"], exclude_characters="\x04\x06\x13\x14\x16\x1d"
).filter(lambda character: not 0x40000 <= ord(character) < 0xC0000)


@pytest.mark.model
@given(st.text(COVERED))
def test_text_survives_the_model_vocabulary(smollm2: Tokenizer, text: str) -> None:
    ids = smollm2.encode(text, parse_special=False)
    assert smollm2.decode(ids, skip_special=False) == text
    assert "".join(pushed(smollm2.incremental_decoder(skip_special=False), ids)) == text


@pytest.mark.model
@given(st.lists(st.integers(0, 49151)))
def test_any_ids_stream_as_they_decode(smollm2: Tokenizer, ids: list[int]) -> None:
    assert "".join(pushed(smollm2.incremental_decoder(), ids)) == smollm2.decode(ids)
