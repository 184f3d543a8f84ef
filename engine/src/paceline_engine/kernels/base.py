"""The kernels a model calls; `reference` and `cpu` both offer them."""

from __future__ import annotations

from typing import Protocol

import torch

from paceline_engine.kernels.operands import LayerCache, RotaryTable, StepBatch


class Kernels(Protocol):
    """Everything in a transformer block that is not a matrix product."""

    def rms_norm(self, x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
        """RMS norm of [rows, width]: x / sqrt(mean(x^2) + eps) * weight."""
        ...

    def add_rms_norm(
        self, x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
    ) -> torch.Tensor:
        """Adds x to `residual` in place and returns the RMS norm of the sum."""
        ...

    def head_norm(self, qkv: torch.Tensor, weight: torch.Tensor, eps: float) -> None:
        """RMS norm of each of the first heads of every row, in place.

        Args:
            qkv: [rows, (heads + 2 kv_heads) * head_dim]: queries, keys, values.
            weight: [heads + kv_heads, head_dim].
            eps: As in `rms_norm`.
        """
        ...

    def rope_store(
        self, qkv: torch.Tensor, rotary: RotaryTable, batch: StepBatch, cache: LayerCache
    ) -> None:
        """Rotates the queries in `qkv` in place; writes rotated keys and values to the cache.

        Args:
            qkv: [rows, (heads + 2 kv_heads) * head_dim]: queries, keys, values. The key part
                is unspecified afterwards.
            rotary: Tables that reach the batch's largest position.
            batch: Positions and slots are used.
            cache: Written at the slots.
        """
        ...

    def paged_attention(
        self, qkv: torch.Tensor, batch: StepBatch, cache: LayerCache, window: int = 0
    ) -> torch.Tensor:
        """Causal attention of each chunk over its sequence's cache, the chunk included.

        Args:
            qkv: As `rope_store` left it; queries are scaled by 1 / sqrt(head_dim) here.
            batch: Tables, starts and contexts are used.
            cache: Holds the chunk's own keys and values already.
            window: Tokens that a token sees, itself included; 0 for all.

        Returns:
            [rows, heads * head_dim].
        """
        ...

    def silu_mul(self, gate_up: torch.Tensor) -> torch.Tensor:
        """Gated activation silu(gate) * up of rows [gate | up], [rows, 2 * width]."""
        ...
