"""KV tensors of all layers, allocated once for the whole pool."""

from __future__ import annotations

import torch

from paceline_engine.kernels.operands import LayerCache
from paceline_engine.weights.model_config import ModelConfig


def allocate_kv_cache(model: ModelConfig, num_blocks: int, block_size: int) -> list[LayerCache]:
    """Zeroed blocks per layer; zero, because a stale NaN would outlive its request.

    The operating system maps the pages when they are first written.
    """
    keys = (num_blocks, model.num_kv_heads, model.head_dim, block_size)
    values = (num_blocks, model.num_kv_heads, block_size, model.head_dim)
    return [LayerCache(torch.zeros(keys), torch.zeros(values)) for _ in range(model.num_layers)]
