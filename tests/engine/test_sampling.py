"""Settings of a request: what follows from them, how they travel, seeds of choices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline_engine.sampling import SamplingParams, choice_seed


@pytest.mark.parametrize(
    "changes",
    [
        {"min_tokens": 1},
        {"presence_penalty": -0.5},
        {"frequency_penalty": 0.5},
        {"repetition_penalty": 0.9},
        {"logit_bias": ((3, 1.0),)},
        {"bad_words": ((3, 4),)},
    ],
    ids=str,
)
def test_what_shapes_logits_is_known_after_every_journey(changes: dict[str, Any]) -> None:
    shaping = SamplingParams(**changes)
    assert shaping.shapes_logits
    packed = msgspec.msgpack.encode(shaping)
    travelled = msgspec.msgpack.decode(packed, type=SamplingParams)
    assert travelled == shaping
    assert travelled.shapes_logits
    assert replace(shaping, seed=9).shapes_logits
    assert not replace(shaping, **{k: getattr(SamplingParams(), k) for k in changes}).shapes_logits


def test_filters_and_reports_leave_logits_alone() -> None:
    plain = SamplingParams(
        temperature=0.3,
        top_p=0.5,
        top_k=4,
        min_p=0.1,
        logprobs=5,
        prompt_logprobs=5,
        stop_token_ids=(3,),
    )
    assert not plain.shapes_logits


@pytest.mark.behaviour(
    "the choices of one seeded request have seeds of their own, the first the request's",
    report="vllm #10852, PR #11898: n > 1 with one seed gave n equal texts",
)
@settings(deadline=None)
@given(st.integers(0, 2**64 - 1), st.integers(1, 128))
def test_each_choice_has_its_own_seed(seed: int, count: int) -> None:
    seeds = [choice_seed(seed, index) for index in range(count)]
    assert seeds[0] == seed
    assert len(set(seeds)) == count
    assert all(0 <= each < 2**64 for each in seeds)
    assert seeds == [choice_seed(seed - 2**64, index) for index in range(count)]
