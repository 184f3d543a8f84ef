"""What kernels work on: one layer's paged cache, one step's batch, rotary tables.

All floating point is fp32, all indices are int64, all tensors are contiguous on the CPU.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class LayerCache:
    """Keys and values of one layer.

    Attributes:
        keys: [blocks, kv_heads, head_dim, block_size]; keys lie transposed so that scores
            of a whole block are one small matrix product.
        values: [blocks, kv_heads, block_size, head_dim].
    """

    keys: torch.Tensor
    values: torch.Tensor

    @property
    def kv_heads(self) -> int:
        """Key and value heads."""
        return self.keys.shape[1]

    @property
    def head_dim(self) -> int:
        """Width of one head."""
        return self.keys.shape[2]

    @property
    def block_size(self) -> int:
        """Tokens in a block."""
        return self.keys.shape[3]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBatch:
    """The rows of one step: chunks of sequences one after the other, a row per token.

    Attributes:
        positions: [rows] absolute position of each token.
        slots: [rows] where its key and value go: block id * block_size + offset.
        tables: [sequences, longest table] block ids; the tail of a short table is 0.
        starts: [sequences + 1] first row of each chunk, then the number of rows.
        contexts: [sequences] tokens that stood in the cache before the chunk.
    """

    positions: torch.Tensor
    slots: torch.Tensor
    tables: torch.Tensor
    starts: torch.Tensor
    contexts: torch.Tensor


@dataclass(frozen=True, slots=True)
class RotaryTable:
    """Cosines and sines of the rotary embedding.

    Attributes:
        cosine: [positions, head_dim / 2].
        sine: As `cosine`.
    """

    cosine: torch.Tensor
    sine: torch.Tensor
