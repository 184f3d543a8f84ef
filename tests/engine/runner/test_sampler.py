"""Sampling: exact distributions, filters, and independence of batch mates."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import MinPLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from paceline_engine.runner.adjustment import Adjustment
from paceline_engine.runner.failure import Failure
from paceline_engine.runner.philox import uniform
from paceline_engine.runner.sampler import Draw, candidates, sample
from paceline_engine.sampling import SamplingParams, choice_seed
from tests.engine.runner import reference_sampling as reference
from tests.engine.runner.reference_sampling import HISTORIES, ROWS, TOKENS, VOCABULARY


def draw_many(logits: list[float], count: int, **settings_of_all: float) -> list[int]:
    draws = [
        Draw(SamplingParams(seed=position % 7, **settings_of_all), position)  # type: ignore[arg-type]  # values of mixed kinds
        for position in range(count)
    ]
    tokens = sample(torch.tensor([logits]).expand(count, -1), draws)
    return drawn(tokens)


def drawn(tokens: list[int | Failure]) -> list[int]:
    assert not any(isinstance(token, Failure) for token in tokens)
    return [token for token in tokens if not isinstance(token, Failure)]


def test_greedy_takes_the_best_and_the_first_of_equals() -> None:
    greedy = Draw(SamplingParams(temperature=0.0), 5)
    logits = torch.tensor([[0.0, 3.0, 1.0], [2.0, 1.0, 2.0]])
    assert sample(logits, [greedy, greedy]) == [1, 0]


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_frequencies_follow_the_softmax(temperature: float) -> None:
    logits = [2.0, 1.0, 0.0, -1.0, 0.5]
    count = 6000
    expected = (torch.tensor(logits) / temperature).softmax(0).tolist()
    seen = Counter(draw_many(logits, count, temperature=temperature))
    # Chi-squared with 4 degrees of freedom: 23.5 is exceeded once in 10,000 times, and the
    # numbers are fixed.
    distance = sum((seen[i] - count * p) ** 2 / (count * p) for i, p in enumerate(expected))
    assert distance < 23.5


@pytest.mark.parametrize(
    ("top_k", "top_p", "kept"),
    [
        (1, 1.0, {3}),
        (2, 1.0, {3, 1}),
        (0, 0.5, {3}),
        (0, 0.65, {3, 1}),
        (0, 1e-9, {3}),
        (3, 0.99, {3, 1, 0}),
        (2, 0.6, {3}),  # of the two kept, the better has 0.645
        (99, 1.0, {0, 1, 2, 3}),
    ],
)
def test_filters_keep_exactly(top_k: int, top_p: float, kept: set[int]) -> None:
    logits = [math.log(p) for p in (0.12, 0.3, 0.05, 0.53)]
    assert set(draw_many(logits, 600, top_k=top_k, top_p=top_p)) == kept


def test_a_wide_nucleus_is_put_in_order_as_a_whole() -> None:
    tokens = draw_many([0.0] * 2000, 400, top_p=0.9)
    assert max(tokens) >= 512
    assert max(tokens) < 1800  # equals are kept in order of their ids


@pytest.mark.parametrize("temperature", [5e-324, 1e-46, 1e-38, 1e-30, 1e-6, 1e-5, 1e-3, 1e6])
def test_extreme_temperatures_stay_in_the_vocabulary(temperature: float) -> None:
    tokens = draw_many([49.0, 50.0, -300.0], 50, temperature=temperature)
    assert set(tokens) <= {0, 1, 2}
    if temperature < 1:
        assert set(tokens) == {1}


WISHES = st.builds(
    SamplingParams,
    temperature=st.floats(0, 100),
    top_p=st.floats(0, 1, exclude_min=True),
    top_k=st.integers(0, 2**63 - 1),
    min_p=st.floats(0, 1),
    seed=st.integers(0, 2**64 - 1),
)


@settings(max_examples=200, deadline=None)
@given(
    WISHES,
    st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=9),
    st.integers(0, 2**20),
)
def test_whatever_a_client_may_ask_draws_from_the_vocabulary(
    wish: SamplingParams, logits: list[float], position: int
) -> None:
    (token,) = sample(torch.tensor([logits]), [Draw(wish, position)])
    assert not isinstance(token, Failure)
    assert 0 <= token < len(logits)


@pytest.mark.parametrize("poison", [math.nan, math.inf, -math.inf])
def test_a_row_that_is_not_finite_fails_alone(poison: float) -> None:
    logits = torch.zeros(3, 8)
    logits[1, 5] = poison
    draws = [Draw(SamplingParams(seed=1), p) for p in (3, 4, 5)]
    tokens = sample(logits, draws)
    assert tokens[1] is Failure.NON_FINITE
    assert [tokens[0], tokens[2]] == sample(logits[[0, 2]], [draws[0], draws[2]])


@pytest.mark.parametrize("temperature", [0.4, 1.0, 3.0])
@pytest.mark.parametrize("width", [30, 3000])
def test_each_filter_keeps_what_transformers_keeps(temperature: float, width: int) -> None:
    logits = torch.randn(width, generator=torch.Generator().manual_seed(width)) * 3
    scores = (logits / temperature)[None]
    cases: list[tuple[dict[str, Any], Any]] = [
        *(({"top_k": k}, TopKLogitsWarper(k)) for k in (1, 2, 29, 700)),
        *(({"top_p": p}, TopPLogitsWarper(p)) for p in (0.03, 0.313, 0.77, 0.9998)),
        *(({"min_p": p}, MinPLogitsWarper(p)) for p in (0.0013, 0.077, 0.61, 1.0)),
    ]
    for wish, processor in cases:
        weights, ids = candidates(logits, SamplingParams(temperature=temperature, **wish))
        tokens = torch.arange(width) if ids is None else ids
        kept = set(tokens[weights > 0].tolist())
        expected = processor(torch.zeros(1, 1, dtype=torch.int64), scores.clone())[0]
        assert kept == set(expected.isfinite().nonzero().flatten().tolist()), wish
        torch.testing.assert_close(
            weights[weights > 0] / weights.sum(), expected.softmax(0)[tokens[weights > 0]]
        )


Text = tuple[list[int], list[int]]
REQUESTS = st.tuples(ROWS, HISTORIES, reference.SETTINGS)


def draw_of(text: Text, wish: SamplingParams, ends: list[int], width: int = VOCABULARY) -> Draw:
    history = text[0] + text[1]
    adjustment = Adjustment(
        wish, history, num_prompt_tokens=len(text[0]), vocab_size=width, end_token_ids=ends
    )
    return Draw(wish, len(history), adjustment if wish.shapes_logits else None)


@settings(deadline=None, max_examples=200)
@given(REQUESTS, st.lists(TOKENS, max_size=2))
def test_a_token_is_that_of_the_definitions(
    request_: tuple[list[float], Text, SamplingParams], ends: list[int]
) -> None:
    """Its part of the cumulative distribution holds the number of its seed and position."""
    logits, text, wish = request_
    (token,) = drawn(sample(torch.tensor([logits]), [draw_of(text, wish, ends)]))
    row = reference.adjusted(np.array(logits), wish, *text, ends)
    if wish.is_greedy:
        assert token == int(row.argmax())
        return
    low, high = reference.place(reference.distribution(row, wish), token)
    number = uniform(wish.seed, len(text[0]) + len(text[1]))
    assert low - 1e-5 <= number <= high + 1e-5


@pytest.mark.parametrize(
    "wish",
    [
        {"presence_penalty": 1.5, "temperature": 0.8},
        {"frequency_penalty": -0.5, "top_k": 5},
        {"repetition_penalty": 2.0, "min_p": 0.1, "temperature": 1.4},
        {"logit_bias": ((4, 2.5), (0, -1.0)), "top_p": 0.877},
        {"bad_words": ((2, 3), (5,)), "min_tokens": 9, "top_k": 6, "min_p": 0.05},
    ],
    ids=str,
)
def test_frequencies_are_those_of_the_definitions(wish: dict[str, Any]) -> None:
    """4,000 requests with the seeds 0 to 3,999, all after the same text."""
    logits, text, count = [1.0, 0.5, 1.5, 2.0, 0.0, -0.5, 1.25, 0.75], ([1, 3], [0, 3, 3, 2]), 4000
    draws = [draw_of(text, SamplingParams(seed=seed, **wish), [6], 8) for seed in range(count)]
    seen = Counter(drawn(sample(torch.tensor([logits]).expand(count, -1), draws)))
    row = reference.adjusted(np.array(logits), draws[0].sampling, *text, [6])
    expected = reference.distribution(row, draws[0].sampling)
    assert set(seen) <= {token for token, _ in expected}
    distance = sum((seen[i] - count * p) ** 2 / (count * p) for i, p in expected)
    # Chi-squared with up to 7 degrees of freedom: 30 is exceeded once in 10,000 times at most,
    # and the seeds are fixed.
    assert distance < 30


@pytest.mark.parametrize("step", [(1, 0), (0, 1), (choice_seed(0, 1), 0)], ids=str)
def test_neighbours_in_seed_position_or_choice_are_independent(step: tuple[int, int]) -> None:
    """How often each of the four pairs of two even choices is met among 2,000 neighbours."""
    draws = [
        Draw(SamplingParams(seed=3 * index + seed), 50 + index + position)
        for index in range(2000)
        for seed, position in ((0, 0), step)
    ]
    tokens = drawn(sample(torch.zeros(len(draws), 2), draws))
    seen = Counter(zip(tokens[::2], tokens[1::2], strict=True))
    # Chi-squared with 3 degrees of freedom: 21.1 is exceeded once in 10,000 times.
    assert sum((seen[a, b] - 500) ** 2 / 500 for a in (0, 1) for b in (0, 1)) < 21.1


@pytest.mark.behaviour(
    "a seeded request draws the same tokens whatever shares its batch, in whatever order",
    report="vllm #51226: a seeded request changed when an unseeded one shared its batch",
)
@settings(deadline=None, max_examples=60)
@given(st.lists(REQUESTS, min_size=2, max_size=6), st.lists(TOKENS, max_size=2), st.randoms())
def test_batch_mates_and_order_change_nothing(
    requests: list[tuple[list[float], Text, SamplingParams]], ends: list[int], random: Any
) -> None:
    logits = torch.tensor([row for row, _, _ in requests])
    draws = [draw_of(text, wish, ends) for _, text, wish in requests]
    alone = [sample(logits[i : i + 1], [draw])[0] for i, draw in enumerate(draws)]
    order = list(range(len(draws)))
    random.shuffle(order)
    assert sample(logits[order], [draws[i] for i in order]) == [alone[i] for i in order]
    assert logits.tolist() == [row for row, _, _ in requests], "logits are the caller's"
