"""A scheduling decision as the tensors a model takes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from paceline_engine.kernels.operands import StepBatch
from paceline_engine.scheduler.output import ScheduledChunk


def token_ids(chunks: Sequence[ScheduledChunk]) -> torch.Tensor:
    """[rows] token ids of all chunks."""
    return torch.tensor([token for chunk in chunks for token in chunk.token_ids])


def step_batch(chunks: Sequence[ScheduledChunk], block_size: int) -> StepBatch:
    """Where each row of the step stands and which blocks it sees."""
    lengths = [len(chunk.token_ids) for chunk in chunks]
    tables = np.zeros((len(chunks), max(len(chunk.block_ids) for chunk in chunks)), np.int64)
    for row, chunk in enumerate(chunks):
        tables[row, : len(chunk.block_ids)] = chunk.block_ids
    positions = np.concatenate([np.arange(c.start, c.end, dtype=np.int64) for c in chunks])
    sequences = np.repeat(np.arange(len(chunks)), lengths)
    blocks = tables[sequences, positions // block_size]
    return StepBatch(
        positions=torch.from_numpy(positions),
        slots=torch.from_numpy(blocks * block_size + positions % block_size),
        tables=torch.from_numpy(tables),
        starts=torch.tensor([0, *np.cumsum(lengths).tolist()]),
        contexts=torch.tensor([chunk.start for chunk in chunks]),
    )


def sampling_rows(chunks: Sequence[ScheduledChunk]) -> torch.Tensor:
    """Last row of each chunk that samples."""
    ends = np.cumsum([len(chunk.token_ids) for chunk in chunks])
    return torch.tensor(
        [end - 1 for end, chunk in zip(ends.tolist(), chunks, strict=True) if chunk.samples],
        dtype=torch.int64,
    )
