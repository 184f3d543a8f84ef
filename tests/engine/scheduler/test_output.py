"""What a step reports about itself: the inputs of the step-time law."""

from __future__ import annotations

import pytest

from paceline_engine.sampling import SamplingParams
from paceline_engine.scheduler.output import ScheduledChunk, SchedulerOutput, StepClass


def chunk(start: int, length: int, *, is_decode: bool) -> ScheduledChunk:
    return ScheduledChunk(
        request_id=start,
        token_ids=[1] * length,
        start=start,
        block_ids=[0],
        is_decode=is_decode,
        samples=True,
        sampling=SamplingParams(),
    )


DECODE = chunk(100, 1, is_decode=True)
LATE_CHUNK = chunk(32, 16, is_decode=False)
FIRST_CHUNK = chunk(0, 8, is_decode=False)


@pytest.mark.parametrize(
    ("chunks", "step_class", "sizes"),
    [
        ((DECODE, DECODE), StepClass.DECODE_ONLY, (0, 2, 202, 0)),
        ((DECODE, LATE_CHUNK), StepClass.MIXED, (16, 1, 101 + 48, 16 * 48)),
        ((LATE_CHUNK, FIRST_CHUNK), StepClass.PREFILL_ONLY, (24, 0, 48 + 8, 16 * 48 + 8 * 8)),
    ],
)
def test_sizes(
    chunks: tuple[ScheduledChunk, ...], step_class: StepClass, sizes: tuple[int, ...]
) -> None:
    step = SchedulerOutput(step_id=0, chunks=chunks, budget=64)
    assert step.step_class is step_class
    assert sizes == (
        step.prefill_tokens,
        step.decode_rows,
        step.resident_kv_tokens,
        step.chunk_context,
    )
    assert step.num_tokens == step.prefill_tokens + step.decode_rows
