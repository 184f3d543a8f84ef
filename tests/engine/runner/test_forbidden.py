"""Which tokens may not stand at a position."""

from __future__ import annotations

from typing import Any, SupportsIndex, overload

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import MinNewTokensLengthLogitsProcessor, NoBadWordsLogitsProcessor
from typing_extensions import override

from paceline_engine.runner.forbidden import BadWords, BadWordsOfStep, forbidden_tokens
from paceline_engine.sampling import SamplingParams

VOCABULARY = 8
TOKENS = st.integers(0, VOCABULARY - 1)
TEXTS = st.lists(TOKENS, min_size=1, max_size=8)


def forbidden(history: list[int], prompt: int, ends: tuple[int, ...] = (), **wish: Any) -> set[int]:
    params = SamplingParams(**wish)
    return forbidden_tokens(
        params,
        bad_words=BadWords(params.bad_words),
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
            bad_words=BadWords(params.bad_words),
            history=[1, 3],
            position=position,
            num_prompt_tokens=1,
            end_token_ids=(),
            vocab_size=VOCABULARY,
        )


class Text(list[int]):
    """Counts the tokens that are read of it."""

    read = 0

    @overload
    def __getitem__(self, place: SupportsIndex) -> int: ...
    @overload
    def __getitem__(self, place: slice) -> list[int]: ...
    @override
    def __getitem__(self, place: Any) -> Any:
        self.read += len(range(len(self))[place]) if isinstance(place, slice) else 1
        return super().__getitem__(place)


@pytest.mark.behaviour(
    "a token costs the same however many bad words a request has",
    report="superlinear work: a request's list of banned words slows every step of its batch",
)
@pytest.mark.parametrize("count", [1, 10, 2000])
def test_work_does_not_grow_with_the_number_of_words(count: int) -> None:
    words = tuple((2, i % 7, 5, 1) for i in range(3, 3 + count))
    text = Text([2, 6, 5])
    assert BadWords(words).completing(text, 3) <= {1}
    assert text.read <= 4


def test_words_are_taken_up_once_per_request() -> None:
    kept = BadWordsOfStep()
    wish, other = (SamplingParams(bad_words=((1, 2), (3, word))) for word in (4, 5))
    first = kept.of([(1, wish), (2, SamplingParams())])
    assert list(first) == [1]
    assert kept.of([(1, wish)])[1] is first[1]
    assert kept.of([(1, other)])[1].completing([3], 1) == {5}
    assert kept.of([]) == {}
