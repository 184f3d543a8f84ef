"""When an output ends, and what preemption keeps."""

from __future__ import annotations

import pytest

from paceline_engine.request import FinishReason, Request
from paceline_engine.sampling import SamplingParams
from paceline_engine.scheduler.sequence import Sequence

EOS = frozenset({2})


def sequence(max_total: int = 100, **sampling: object) -> Sequence:
    params = SamplingParams(**{"max_tokens": 5, **sampling})  # type: ignore[arg-type]  # test data
    request = Request(request_id=1, prompt_token_ids=(10, 11, 12), sampling=params)
    return Sequence(request, max_total, EOS)


@pytest.mark.parametrize(
    ("sampling", "token", "reason"),
    [
        ({}, 7, None),
        ({}, 2, FinishReason.STOP),
        ({"ignore_eos": True}, 2, None),
        ({"stop_token_ids": (7,)}, 7, FinishReason.STOP),
        ({"stop_token_ids": (7,), "ignore_eos": True}, 7, FinishReason.STOP),
        ({"max_tokens": 1}, 7, FinishReason.LENGTH),
        ({"max_tokens": 1}, 2, FinishReason.STOP),
    ],
)
def test_end(sampling: dict[str, object], token: int, reason: FinishReason | None) -> None:
    made = sequence(**sampling)
    assert made.append(token) is reason
    kept = [10, 11, 12] if reason is FinishReason.STOP else [10, 11, 12, token]
    assert made.token_ids == kept


def test_the_smaller_of_context_and_max_tokens_ends_it() -> None:
    made = sequence(max_total=5)
    assert made.append(7) is None
    assert made.append(7) is FinishReason.LENGTH


def test_preemption_forgets_the_cache_and_keeps_the_text() -> None:
    made = sequence()
    made.admit()
    assert made.is_prefilling
    made.num_computed = 3
    made.append(7)
    assert (made.is_prefilling, made.num_remaining) == (False, 1)
    made.preempt()
    assert (made.token_ids, made.num_remaining) == ([10, 11, 12, 7], 4)
    made.admit()
    assert made.prefill_end == 4
