from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from paceline_engine.tokenizer import Tokenizer
from paceline_engine.tokenizer.byte_vocabulary import (
    END_OF_TEXT_ID,
    FIRST_WORD_ID,
    TURN_END_ID,
    TURN_START_ID,
    VOCAB_SIZE,
)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_prompt_has_one_token_per_byte(byte_level: Tokenizer, text: str) -> None:
    ids = byte_level.encode(text, parse_special=False)
    assert bytes(ids) == text.encode()
    assert byte_level.decode(ids) == text


def test_special_texts_are_special_tokens(byte_level: Tokenizer) -> None:
    assert byte_level.encode("a<|im_end|>") == [ord("a"), TURN_END_ID]
    assert byte_level.eos_token_ids == (END_OF_TEXT_ID, TURN_END_ID)
    assert byte_level.decode([ord("a"), TURN_END_ID]) == "a"


def test_a_chat_is_its_bytes_between_turn_marks(byte_level: Tokenizer) -> None:
    ids = byte_level.apply_chat_template([{"role": "user", "content": "hi"}])
    assert ids == [
        TURN_START_ID, *b"user\nhi", TURN_END_ID, *b"\n", TURN_START_ID, *b"assistant\n"
    ]  # fmt: skip


def test_hashed_tokens_read_as_distinct_words(byte_level: Tokenizer) -> None:
    assert byte_level.vocab_size == VOCAB_SIZE
    words = [byte_level.decode([token_id]) for token_id in range(FIRST_WORD_ID, VOCAB_SIZE)]
    assert len(set(words)) == len(words)
    assert all(word[0] == " " and word[1:].isalpha() and word.isascii() for word in words)


def test_few_tokens_are_held_back(byte_level: Tokenizer) -> None:
    silent = sum(
        byte_level.incremental_decoder().push([token_id]) == "" for token_id in range(VOCAB_SIZE)
    )
    assert silent == 51 + 3
    assert silent / VOCAB_SIZE < 0.002
