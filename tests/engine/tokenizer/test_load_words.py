"""The load generator's words are one token each, so its prompts have the length it says."""

from __future__ import annotations

from random import Random

import pytest

from e2e.load.prompt import WORDS, prompt_text
from paceline_engine.tokenizer import Tokenizer

pytestmark = pytest.mark.model


@pytest.mark.parametrize("word", WORDS)
def test_a_word_after_a_space_is_one_token(smollm2: Tokenizer, word: str) -> None:
    assert len(smollm2.encode(f" {word}")) == 1


@pytest.mark.parametrize("tokens", [1, 24, 96, 1000])
def test_prompts_have_the_wanted_length_give_or_take_a_token(
    smollm2: Tokenizer, tokens: int
) -> None:
    for seed in range(5):
        text = prompt_text(tokens, "words", Random(seed))
        assert 0 <= len(smollm2.encode(text)) - tokens <= 1


def test_prompts_in_bytes_are_exact_on_the_simulated_device(byte_level: Tokenizer) -> None:
    assert len(byte_level.encode(prompt_text(777, "bytes", Random(1)))) == 777
