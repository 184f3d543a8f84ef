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
from paceline_engine.runner.logprobs import LOWEST, SLICE_ROWS, prompt_logprobs, score
from paceline_engine.runner.sampler import Draw, sample
from paceline_engine.sampling import SamplingParams
from paceline_engine.scheduler.output import ScheduledChunk

PADDED, KNOWN = 40, 33


def rows(count: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(count, PADDED, generator=torch.Generator().manual_seed(seed)) * 3


def sound(found: list[TokenLogprobs | Failure]) -> list[TokenLogprobs]:
    return [each for each in found if not isinstance(each, Failure)]


def found_at(row: torch.Tensor, token: int, top: int, known: int = KNOWN) -> TokenLogprobs:
    found = score(row, token, top, known)
    assert not isinstance(found, Failure)
    return found


@settings(deadline=None)
@given(st.integers(0, 50), st.integers(0, KNOWN - 1), st.integers(0, 20))
def test_a_row_is_its_log_softmax(seed: int, token: int, top: int) -> None:
    (row,) = rows(1, seed)
    expected = row.double().log_softmax(-1)
    order = sorted(range(KNOWN), key=lambda i: -float(row[i]))
    found = found_at(row, token, top)
    assert found.token_id == token
    assert found.logprob == pytest.approx(float(expected[token]), abs=1e-5)
    assert found.rank == 1 + order.index(token)
    assert [i for i, _ in found.top] == order[:top]
    assert [p for _, p in found.top] == pytest.approx(expected[order[:top]].tolist(), abs=1e-5)


@pytest.mark.behaviour(
    "log-probabilities are finite numbers, -9999 at the least, so that JSON can carry them",
    report="sglang #5984, vllm #10234: minus infinity made the answer's encoding fail with 500",
)
def test_minus_infinity_is_clamped() -> None:
    masked = found_at(torch.tensor([0.0, -math.inf, -3e38, -2e4]), 1, 4, 4)
    far = found_at(torch.tensor([3e38, -3e38, 0.0, 1.0]), 1, 4, 4)
    assert [masked.logprob, far.logprob] == [LOWEST, LOWEST]
    assert [p for _, p in masked.top] == [0.0, LOWEST, LOWEST, LOWEST]
    assert all(math.isfinite(p) for _, p in far.top)
    assert b"null" not in msgspec.json.encode([masked, far])


@pytest.mark.parametrize("poison", [math.nan, math.inf])
@pytest.mark.parametrize("place", [2, PADDED - 1], ids=["known", "padding"])
def test_a_row_that_cannot_be_scored_says_so(poison: float, place: int) -> None:
    (row,) = rows(1)
    row[place] = poison
    assert score(row, 4, 3, KNOWN) is Failure.NON_FINITE


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
    found = found_at(row[0], token, top_k)
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
