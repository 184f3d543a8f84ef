"""Log-probabilities of the model's own distribution."""

from __future__ import annotations

import math

import msgspec
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline_engine.message import TokenLogprobs
from paceline_engine.runner.failure import Failure
from paceline_engine.runner.logprobs import (
    LOWEST,
    SLICE_ROWS,
    drawn_logprobs,
    prompt_logprobs,
    score,
)
from paceline_engine.runner.sampler import Draw, sample
from paceline_engine.sampling import SamplingParams
from paceline_engine.scheduler.output import ScheduledChunk

PADDED, KNOWN = 40, 33
COUNTS = st.integers(0, 20)


def rows(count: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(count, PADDED, generator=torch.Generator().manual_seed(seed)) * 3


def sound(found: list[TokenLogprobs | Failure]) -> list[TokenLogprobs]:
    return [each for each in found if not isinstance(each, Failure)]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, KNOWN - 1), COUNTS), min_size=1, max_size=6))
def test_each_row_is_its_log_softmax(wanted: list[tuple[int, int]]) -> None:
    logits = rows(len(wanted))
    tokens, tops = zip(*wanted, strict=True)
    found = sound(score(logits, tokens, tops, KNOWN))
    expected = logits.double().log_softmax(-1)
    for row, (token, top) in enumerate(wanted):
        order = sorted(range(KNOWN), key=lambda i, row=row: -float(logits[row, i]))  # type: ignore[misc]  # a bound default
        assert found[row].token_id == token
        assert found[row].logprob == pytest.approx(float(expected[row, token]), abs=1e-5)
        assert found[row].rank == 1 + order.index(token)
        assert [i for i, _ in found[row].top] == order[:top]
        assert [p for _, p in found[row].top] == pytest.approx(
            expected[row, order[:top]].tolist(), abs=1e-5
        )


def test_rows_of_a_step_are_scored_in_slices_and_only_those_asked_for() -> None:
    logits = rows(3 * SLICE_ROWS + 2)
    wanted = list(range(1, len(logits), 2)) + list(range(0, len(logits), 2))
    tokens = [row % KNOWN for row in wanted]
    found = sound(drawn_logprobs(logits, wanted, tokens, [2] * len(wanted), KNOWN))
    alone = [sound(score(logits[r : r + 1], [r % KNOWN], [2], KNOWN))[0] for r in wanted]
    assert [each.token_id for each in found] == tokens
    assert [each.rank for each in found] == [each.rank for each in alone]
    for each, single in zip(found, alone, strict=True):
        assert each.logprob == pytest.approx(single.logprob, abs=1e-6)
    assert drawn_logprobs(logits, [], [], [], KNOWN) == []


@pytest.mark.behaviour(
    "log-probabilities are finite numbers, -9999 at the least, so that JSON can carry them",
    report="sglang #5984, vllm #10234: minus infinity made the answer's encoding fail with 500",
)
def test_minus_infinity_is_clamped() -> None:
    logits = torch.tensor([[0.0, -math.inf, -3e38, -2e4], [3e38, -3e38, 0.0, 1.0]])
    found = sound(score(logits, [1, 1], [4, 4], 4))
    assert [each.logprob for each in found] == [LOWEST, LOWEST]
    assert [p for _, p in found[0].top] == [0.0, LOWEST, LOWEST, LOWEST]
    assert all(math.isfinite(p) for each in found for _, p in each.top)
    assert b"null" not in msgspec.json.encode(found)


@pytest.mark.parametrize("poison", [math.nan, math.inf])
@pytest.mark.parametrize("place", [2, PADDED - 1], ids=["known", "padding"])
def test_a_row_that_cannot_be_scored_fails_alone(poison: float, place: int) -> None:
    logits = rows(3)
    expected = score(logits, [4, 5, 6], [3, 3, 3], KNOWN)
    logits[1, place] = poison
    found = score(logits, [4, 5, 6], [3, 3, 3], KNOWN)
    assert found[1] is Failure.NON_FINITE
    assert [found[0], found[2]] == [expected[0], expected[2]]


@pytest.mark.behaviour(
    "a drawn token is one that its filters allow and is among the best reported as far as its "
    "rank says; the log-probability reported is its own",
    report="vllm-metal #622: the chosen token was outside the top-k it reported",
)
@settings(deadline=None, max_examples=200)
@given(
    st.lists(st.integers(-6, 6), min_size=KNOWN, max_size=KNOWN),
    st.integers(1, 20),
    st.integers(0, 2**32),
    st.sampled_from([0.05, 0.7, 1.0, 50.0]),
)
def test_the_drawn_token_is_among_as_many_best_as_its_filter_kept(
    logits: list[int], top_k: int, seed: int, temperature: float
) -> None:
    """Logits are full of equals: both sides must break ties alike."""
    row = torch.tensor([logits], dtype=torch.float32) / 8
    wish = SamplingParams(top_k=top_k, seed=seed, temperature=temperature)
    token = sample(row, [Draw(wish, 9)])[0]
    assert not isinstance(token, Failure)
    (found,) = sound(score(row, [token], [top_k], KNOWN))
    assert found.rank <= top_k
    assert found.top[found.rank - 1] == (token, found.logprob)
    assert found.logprob == pytest.approx(float(row[0].log_softmax(0)[token]), abs=1e-6)


def chunk(
    owner: int, start: int, length: int, history: list[int], top: int | None
) -> ScheduledChunk:
    return ScheduledChunk(
        request_id=owner,
        token_ids=history[start : start + length],
        start=start,
        block_ids=[0],
        is_decode=False,
        samples=False,
        sampling=SamplingParams(prompt_logprobs=top),
        history=history,
        num_prompt_tokens=len(history),
    )


def test_prompt_rows_go_through_the_head_a_slice_at_a_time() -> None:
    history = [i % KNOWN for i in range(3 * SLICE_ROWS)]
    chunks = [
        chunk(1, 5, 4, history, None),
        chunk(2, 3, 2 * SLICE_ROWS + 7, history, 2),
        chunk(3, len(history) - 2, 2, history, 0),
    ]
    hidden = rows(sum(len(c.token_ids) for c in chunks))
    passed: list[int] = []

    def head(states: torch.Tensor) -> torch.Tensor:
        passed.append(len(states))
        return states * 2

    found = prompt_logprobs(chunks, hidden, head, KNOWN)
    assert passed == [SLICE_ROWS, SLICE_ROWS, 7, 1]
    assert list(found) == [2, 3]
    logits, first = hidden * 2, len(chunks[0].token_ids)
    assert [each.token_id for each in sound(found[2])] == history[4 : 4 + 2 * SLICE_ROWS + 7]
    for row, each in enumerate(sound(found[2])):
        expected = logits[first + row].log_softmax(0)
        assert each.logprob == pytest.approx(float(expected[each.token_id]), abs=1e-5)
        assert len(each.top) == 2
    (last,) = sound(found[3])
    assert last.token_id == history[-1]
    assert last.logprob == pytest.approx(float(logits[-2].log_softmax(0)[history[-1]]), abs=1e-5)
    assert last.top == ()
