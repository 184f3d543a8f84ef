"""Sampling: exact distributions, filters, and independence of batch mates."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline_engine.runner.sampler import Draw, sample
from paceline_engine.sampling import SamplingParams
from paceline_engine.server.sampling_fields import INT64_MAX, INT64_MIN, SamplingFields


def draw_many(logits: list[float], count: int, **settings_of_all: float) -> list[int]:
    draws = [
        Draw(SamplingParams(seed=position % 7, **settings_of_all), position)  # type: ignore[arg-type]  # values of mixed kinds
        for position in range(count)
    ]
    tokens = sample(torch.tensor([logits]).expand(count, -1), draws)
    assert None not in tokens
    return [token for token in tokens if token is not None]


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
    SamplingFields,
    temperature=st.none() | st.floats(0, 100),
    top_p=st.none() | st.floats(0, 1, exclude_min=True),
    top_k=st.none() | st.integers(-1, INT64_MAX),
    seed=st.none() | st.integers(INT64_MIN, INT64_MAX),
)


@settings(max_examples=300, deadline=None)
@given(
    WISHES,
    st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=9),
    st.integers(0, 2**20),
)
def test_whatever_a_client_may_ask_draws_from_the_vocabulary(
    wish: SamplingFields, logits: list[float], position: int
) -> None:
    sampling = wish.params(max_tokens=1, drawn_seed=5)
    (token,) = sample(torch.tensor([logits]), [Draw(sampling, position)])
    assert token is not None
    assert 0 <= token < len(logits)


@pytest.mark.parametrize("poison", [math.nan, math.inf, -math.inf])
def test_a_row_that_is_not_finite_fails_alone(poison: float) -> None:
    logits = torch.zeros(3, 8)
    logits[1, 5] = poison
    draws = [Draw(SamplingParams(seed=1), p) for p in (3, 4, 5)]
    tokens = sample(logits, draws)
    assert tokens[1] is None
    assert [tokens[0], tokens[2]] == sample(logits[[0, 2]], [draws[0], draws[2]])


SETTINGS = st.builds(
    SamplingParams,
    temperature=st.sampled_from([0.0, 0.7, 1.0, 1.5]),
    top_p=st.sampled_from([0.3, 0.9, 1.0]),
    top_k=st.sampled_from([0, 1, 20]),
    seed=st.integers(0, 2**64 - 1),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(SETTINGS, st.integers(0, 5000)), min_size=2, max_size=6), st.randoms())
def test_batch_mates_and_order_change_nothing(
    wanted: list[tuple[SamplingParams, int]], random: object
) -> None:
    draws = [Draw(sampling, position) for sampling, position in wanted]
    logits = torch.randn(len(draws), 300, generator=torch.Generator().manual_seed(3))
    alone = [sample(logits[i : i + 1], [draw])[0] for i, draw in enumerate(draws)]
    order = list(range(len(draws)))
    random.shuffle(order)  # type: ignore[attr-defined]  # hypothesis types it as object
    assert sample(logits[order], [draws[i] for i in order]) == [alone[i] for i in order]
