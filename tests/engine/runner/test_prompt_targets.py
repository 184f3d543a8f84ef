"""Which prompt tokens a chunk reports."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline_engine.runner.prompt_targets import prompt_targets
from paceline_engine.sampling import SamplingParams
from paceline_engine.scheduler.output import ScheduledChunk

ASKED = SamplingParams(prompt_logprobs=0)


def chunk(
    start: int, end: int, prompt: int, output: int = 0, wish: SamplingParams = ASKED
) -> ScheduledChunk:
    history = list(range(100, 100 + prompt + output))
    return ScheduledChunk(
        request_id=1,
        token_ids=history[start:end],
        start=start,
        block_ids=[0],
        is_decode=False,
        samples=end == len(history),
        sampling=wish,
        history=history,
        num_prompt_tokens=prompt,
    )


@settings(deadline=None)
@given(st.integers(1, 40), st.lists(st.integers(1, 40), max_size=6))
def test_chunks_together_report_all_but_the_first(prompt: int, cuts: list[int]) -> None:
    bounds = sorted({0, prompt, *(cut for cut in cuts if cut < prompt)})
    reported = [
        token
        for start, end in pairwise(bounds)
        for token in prompt_targets(chunk(start, end, prompt))
    ]
    assert reported == list(range(101, 100 + prompt))


@pytest.mark.parametrize(
    "silent",
    [
        chunk(0, 5, 5, wish=SamplingParams(logprobs=3)),
        chunk(0, 6, 5, output=1),
        chunk(5, 6, 5, output=1),
        chunk(0, 1, 1),
    ],
    ids=["not asked for", "computed again", "decode", "a prompt of one token"],
)
def test_nothing_to_report(silent: ScheduledChunk) -> None:
    assert list(prompt_targets(silent)) == []
