"""The specification of `Kernels`, written for reading."""

from __future__ import annotations

import math

import torch

from paceline_engine.kernels.operands import LayerCache, RotaryTable, StepBatch


class ReferenceKernels:
    """Plain torch; works for every head width and block size."""

    def rms_norm(self, x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
        """See `Kernels.rms_norm`; Zhang and Sennrich, arXiv:1910.07467."""
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight

    def add_rms_norm(
        self, x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
    ) -> torch.Tensor:
        """See `Kernels.add_rms_norm`."""
        return self.rms_norm(residual.add_(x), weight, eps)

    def head_norm(self, qkv: torch.Tensor, weight: torch.Tensor, eps: float) -> None:
        """See `Kernels.head_norm`; Dehghani et al., arXiv:2302.05442."""
        heads = qkv.view(qkv.shape[0], -1, weight.shape[1])[:, : weight.shape[0]]
        heads.copy_(self.rms_norm(heads, weight, eps))

    def rope_store(
        self, qkv: torch.Tensor, rotary: RotaryTable, batch: StepBatch, cache: LayerCache
    ) -> None:
        """See `Kernels.rope_store`; Su et al., arXiv:2104.09864, with half-split pairs."""
        heads = qkv.view(qkv.shape[0], -1, cache.head_dim)
        rotated, values = heads[:, : -cache.kv_heads], heads[:, -cache.kv_heads :]
        first, second = rotated.chunk(2, dim=-1)
        cosine = rotary.cosine[batch.positions].unsqueeze(1)
        sine = rotary.sine[batch.positions].unsqueeze(1)
        rotated.copy_(
            torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1)
        )
        blocks, offsets = batch.slots // cache.block_size, batch.slots % cache.block_size
        cache.keys[blocks, :, :, offsets] = rotated[:, -cache.kv_heads :]
        cache.values[blocks, :, offsets] = values

    def paged_attention(
        self, qkv: torch.Tensor, batch: StepBatch, cache: LayerCache, window: int = 0
    ) -> torch.Tensor:
        """See `Kernels.paged_attention`."""
        heads = qkv.view(qkv.shape[0], -1, cache.head_dim)[:, : -2 * cache.kv_heads]
        starts = batch.starts.tolist()
        return torch.cat(
            [
                _attend(heads[start:end], table, context, cache, window)
                for start, end, table, context in zip(
                    starts[:-1], starts[1:], batch.tables, batch.contexts.tolist(), strict=True
                )
            ]
        )

    def silu_mul(self, gate_up: torch.Tensor) -> torch.Tensor:
        """See `Kernels.silu_mul`."""
        gate, up = gate_up.chunk(2, dim=-1)
        return torch.nn.functional.silu(gate) * up


def _attend(
    query: torch.Tensor, table: torch.Tensor, context: int, cache: LayerCache, window: int
) -> torch.Tensor:
    """Attention of one chunk [tokens, heads, head_dim] -> [tokens, heads * head_dim]."""
    tokens, num_heads, head_dim = query.shape
    length = context + tokens
    used = table[: -(-length // cache.block_size)]
    group = num_heads // cache.kv_heads
    keys = cache.keys[used].permute(1, 2, 0, 3).flatten(2)[:, :, :length]
    values = cache.values[used].permute(1, 0, 2, 3).flatten(1, 2)[:, :length]
    scores = query.transpose(0, 1) @ keys.repeat_interleave(group, 0) / math.sqrt(head_dim)
    positions = torch.arange(length)
    asking = positions[context:].unsqueeze(1)
    hidden = positions > asking
    if window:
        hidden |= positions <= asking - window
    weights = scores.masked_fill(hidden, -torch.inf).softmax(-1)
    return (weights @ values.repeat_interleave(group, 0)).transpose(0, 1).flatten(1)
