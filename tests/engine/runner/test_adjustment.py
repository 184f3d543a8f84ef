"""Bias, penalties and masks, against numpy, transformers and the ends of fp32."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import RepetitionPenaltyLogitsProcessor

from paceline_engine.runner.adjustment import Adjustment, Adjustments
from paceline_engine.runner.failure import Failure
from paceline_engine.sampling import SamplingParams
from paceline_engine.scheduler.output import ScheduledChunk
from tests.engine.runner import reference_sampling as reference
from tests.engine.runner.reference_sampling import HISTORIES, ROWS, SETTINGS, TOKENS, VOCABULARY


def apply(
    row: torch.Tensor, text: tuple[list[int], list[int]], ends: list[int], wish: SamplingParams
) -> torch.Tensor | Failure:
    prompt, output = text
    adjustment = Adjustment(
        wish,
        prompt + output,
        num_prompt_tokens=len(prompt),
        vocab_size=len(row),
        end_token_ids=ends,
    )
    return adjustment.apply(row, len(prompt) + len(output))


@settings(deadline=None, max_examples=150)
@given(ROWS, HISTORIES, st.lists(TOKENS, max_size=2), SETTINGS)
def test_a_row_is_that_of_the_definitions(
    logits: list[float],
    text: tuple[list[int], list[int]],
    ends: list[int],
    wish: SamplingParams,
) -> None:
    row = torch.tensor(logits)
    actual = apply(row, text, ends, wish)
    expected = reference.adjusted(np.array(logits), wish, *text, ends)
    assert not isinstance(actual, Failure)
    np.testing.assert_array_equal(actual.numpy(), expected.astype(np.float32))
    assert row.tolist() == logits


@settings(deadline=None)
@given(ROWS, HISTORIES, st.floats(0.1, 10))
def test_repetition_is_that_of_transformers(
    logits: list[float], text: tuple[list[int], list[int]], penalty: float
) -> None:
    row = torch.tensor(logits)
    actual = apply(row, text, [], SamplingParams(repetition_penalty=penalty))
    tokens = torch.tensor([text[0] + text[1]])
    expected = RepetitionPenaltyLogitsProcessor(penalty)(tokens, row.clone()[None])[0]
    torch.testing.assert_close(actual, expected)


def chunk(history: list[int], prompt: int, wish: SamplingParams, owner: int = 7) -> ScheduledChunk:
    return ScheduledChunk(
        request_id=owner,
        token_ids=history[-1:],
        start=len(history) - 1,
        block_ids=[0],
        is_decode=True,
        samples=True,
        sampling=wish,
        history=history,
        num_prompt_tokens=prompt,
    )


@settings(deadline=None, max_examples=60)
@given(ROWS, HISTORIES, st.lists(st.tuples(TOKENS, st.booleans()), max_size=12), SETTINGS)
def test_kept_from_step_to_step_or_taken_up_anew_a_request_gets_the_same(
    logits: list[float],
    text: tuple[list[int], list[int]],
    steps: list[tuple[int, bool]],
    wish: SamplingParams,
) -> None:
    """A step sat out is what preemption is, as far as sampling sees."""
    wish = replace(wish, presence_penalty=0.5)
    row, prompt = torch.tensor(logits), text[0]
    history = prompt + text[1]
    kept = Adjustments(VOCABULARY, (3,))
    for token, sits_out in steps:
        if sits_out:
            kept.of([])
        actual = kept.of([chunk(history, len(prompt), wish)])[7].apply(row, len(history))
        alone = apply(row, (prompt, history[len(prompt) :]), [3], wish)
        torch.testing.assert_close(actual, alone, rtol=0, atol=0)
        history.append(token)


def test_what_has_ended_is_forgotten() -> None:
    kept = Adjustments(VOCABULARY, ())
    wish = SamplingParams(presence_penalty=1.0)
    first = kept.of([chunk([1, 2], 1, wish)])[7]
    assert kept.of([chunk(first.history, 1, wish)])[7] is first  # type: ignore[arg-type]  # a list
    assert kept.of([chunk([1, 2], 1, wish)])[7] is not first, "another text under that id"
    assert kept.of([chunk([1, 2], 1, SamplingParams(logprobs=3), owner=8)]) == {}


@pytest.mark.behaviour(
    "an id outside the vocabulary in stop tokens, biases, bad words or the prompt touches no logit",
    report="vllm #54195, PR #16529: such an id stopped the engine or wrote into a neighbour's row",
)
@pytest.mark.parametrize("token", [-1, -VOCABULARY - 1, VOCABULARY, 2**40])
def test_ids_outside_the_vocabulary_touch_nothing(token: int) -> None:
    wish = SamplingParams(
        min_tokens=4,
        stop_token_ids=(token,),
        logit_bias=((token, 50.0),),
        bad_words=((token,),),
        presence_penalty=1.0,
        repetition_penalty=2.0,
    )
    rows = torch.ones(3, VOCABULARY)
    actual = apply(rows[1], ([token], [token]), [token], wish)
    torch.testing.assert_close(actual, torch.ones(VOCABULARY))
    assert (rows == 1).all()


@pytest.mark.parametrize(
    ("logit", "wish"),
    [
        (3e38, {"logit_bias": ((1, 3e38),)}),
        (-3e38, {"logit_bias": ((1, -3e38),)}),
        (5.0, {"repetition_penalty": 1e-38}),
        (-5.0, {"repetition_penalty": 3e38}),
        (-3e38, {"frequency_penalty": 3e38}),
        (0.0, {"presence_penalty": 1e39}),
    ],
)
def test_logits_out_of_range_are_told(logit: float, wish: dict[str, Any]) -> None:
    row = torch.tensor([0.0, logit, 0.0])
    assert apply(row, ([2], [1, 1]), [], SamplingParams(**wish)) is Failure.OVERFLOW


def test_settings_that_leave_no_token_are_told() -> None:
    words = SamplingParams(bad_words=((0,), (1,)), min_tokens=1)
    assert apply(torch.zeros(3), ([1], []), [2], words) is Failure.EXHAUSTED
    assert apply(torch.zeros(3), ([1], [1]), [2], words) is not Failure.EXHAUSTED
