"""Which tokens may not stand at a position."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import MinNewTokensLengthLogitsProcessor, NoBadWordsLogitsProcessor

from paceline_engine.runner.forbidden import forbidden_tokens
from paceline_engine.sampling import SamplingParams

VOCABULARY = 8
TOKENS = st.integers(0, VOCABULARY - 1)
TEXTS = st.lists(TOKENS, min_size=1, max_size=8)


def forbidden(history: list[int], prompt: int, ends: tuple[int, ...] = (), **wish: Any) -> set[int]:
    return forbidden_tokens(
        SamplingParams(**wish),
        history=history,
        position=len(history),
        num_prompt_tokens=prompt,
        end_token_ids=ends,
        vocab_size=VOCABULARY,
    )


def removed(processor: Any, history: list[int]) -> set[int]:
    scores = processor(torch.tensor([history]), torch.zeros(1, VOCABULARY))[0]
    return set(scores.isneginf().nonzero().flatten().tolist())


@settings(deadline=None)
@given(TEXTS, st.lists(st.lists(TOKENS, min_size=1, max_size=4), min_size=1, max_size=6))
def test_bad_words_are_those_of_transformers(history: list[int], words: list[list[int]]) -> None:
    expected = removed(NoBadWordsLogitsProcessor(words), history)
    assert forbidden(history, 1, bad_words=tuple(map(tuple, words))) == expected


@settings(deadline=None)
@given(TEXTS, st.lists(TOKENS, min_size=1, max_size=3), st.integers(0, 6), st.booleans())
def test_the_least_length_is_that_of_transformers(
    output: list[int], ends: list[int], least: int, ignore_eos: bool
) -> None:
    history = [0, 1, *output]
    expected = removed(MinNewTokensLengthLogitsProcessor(2, least, ends), history)
    wish = {"min_tokens": least, "ignore_eos": ignore_eos}
    assert forbidden(history, 2, tuple(ends), **wish) == expected


@pytest.mark.behaviour(
    "min_tokens holds back end-of-generation tokens as well as the request's stop tokens",
    report="vllm PR #32163: min_tokens masked only the user's stop ids and the end token fired",
)
def test_every_token_that_ends_is_held_back() -> None:
    wish: dict[str, Any] = {"min_tokens": 2, "stop_token_ids": (5,)}
    assert forbidden([1, 2], 1, (0, 7), **wish) == {0, 5, 7}
    assert forbidden([1, 2, 3], 1, (0, 7), **wish) == set()


@pytest.mark.parametrize("token", [-1, VOCABULARY, 10**9])
def test_ids_outside_the_vocabulary_forbid_nothing(token: int) -> None:
    wish: dict[str, Any] = {"min_tokens": 9, "stop_token_ids": (token,)}
    assert forbidden([1], 1, (token, 3), bad_words=((token,), (1, token), ()), **wish) == {3}


def test_a_word_longer_than_the_text_forbids_nothing() -> None:
    assert forbidden([1], 1, bad_words=((2, 1, 3),)) == set()
    assert forbidden([2, 1], 1, bad_words=((2, 1, 3),)) == {3}


def test_only_the_text_before_the_position_counts() -> None:
    params = SamplingParams(bad_words=((1, 2), (3, 4)))
    for position, expected in ((1, {2}), (2, {4})):
        assert expected == forbidden_tokens(
            params,
            history=[1, 3],
            position=position,
            num_prompt_tokens=1,
            end_token_ids=(),
            vocab_size=VOCABULARY,
        )
