"""Grouped-query self-attention over the paged cache."""

from __future__ import annotations

import torch

from paceline_engine.kernels.base import Kernels
from paceline_engine.kernels.operands import LayerCache, RotaryTable, StepBatch
from paceline_engine.layers.linear import Linear


class Attention:
    """Fused projection, rotary embedding, paged attention, output projection.

    Args:
        qkv: Rows of all query heads, then keys, then values.
        output: Output projection.
        rotary: Tables for the longest sequence.
        kernels: Kernels in use.
    """

    def __init__(self, qkv: Linear, output: Linear, rotary: RotaryTable, kernels: Kernels) -> None:
        self._qkv = qkv
        self._output = output
        self._rotary = rotary
        self._kernels = kernels

    def __call__(self, x: torch.Tensor, batch: StepBatch, cache: LayerCache) -> torch.Tensor:
        """[rows, hidden] -> [rows, hidden]; writes the rows' keys and values to `cache`."""
        qkv = self._qkv(x)
        self._kernels.rope_store(qkv, self._rotary, batch, cache)
        return self._output(self._kernels.paged_attention(qkv, batch, cache))
