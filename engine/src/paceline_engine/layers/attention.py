"""Grouped-query self-attention over the paged cache."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from paceline_engine.kernels.base import Kernels
from paceline_engine.kernels.operands import LayerCache, RotaryTable, StepBatch
from paceline_engine.layers.linear import Linear


@dataclass(frozen=True, slots=True)
class HeadNorm:
    """RMS norm of each query and key head before it is rotated.

    Attributes:
        weight: [heads + kv_heads, head_dim].
        eps: Epsilon.
    """

    weight: torch.Tensor
    eps: float


class Attention:
    """Fused projection, norm of heads, rotary embedding, paged attention, output projection.

    Args:
        qkv: Rows of all query heads, then keys, then values.
        output: Output projection.
        rotary: Tables for the longest sequence.
        kernels: Kernels in use.
        head_norm: None where the family has none.
        window: Tokens that a token sees, itself included; 0 for all.
    """

    def __init__(
        self,
        qkv: Linear,
        output: Linear,
        rotary: RotaryTable,
        kernels: Kernels,
        *,
        head_norm: HeadNorm | None = None,
        window: int = 0,
    ) -> None:
        self._qkv = qkv
        self._output = output
        self._rotary = rotary
        self._kernels = kernels
        self._head_norm = head_norm
        self._window = window

    def __call__(self, x: torch.Tensor, batch: StepBatch, cache: LayerCache) -> torch.Tensor:
        """[rows, hidden] -> [rows, hidden]; writes the rows' keys and values to `cache`."""
        qkv = self._qkv(x)
        if self._head_norm is not None:
            self._kernels.head_norm(qkv, self._head_norm.weight, self._head_norm.eps)
        self._kernels.rope_store(qkv, self._rotary, batch, cache)
        return self._output(self._kernels.paged_attention(qkv, batch, cache, self._window))
