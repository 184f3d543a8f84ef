"""KV tensors of all layers, allocated once for the whole pool."""

from __future__ import annotations

import numpy as np
import torch

from paceline_engine.kernels.operands import LayerCache
from paceline_engine.weights.model_config import ModelConfig


def allocate_kv_cache(model: ModelConfig, num_blocks: int, block_size: int) -> list[LayerCache]:
    """Zeroed blocks per layer; zero, because a stale NaN would outlive its request.

    numpy asks the operating system for zeroed pages, which take memory when they are first
    written; torch would write them all at once.
    """
    keys = (num_blocks, model.num_kv_heads, model.head_dim, block_size)
    values = (num_blocks, model.num_kv_heads, block_size, model.head_dim)
    return [LayerCache(_zeros(keys), _zeros(values)) for _ in range(model.num_layers)]


def _zeros(shape: tuple[int, ...]) -> torch.Tensor:
    return torch.from_numpy(np.zeros(shape, np.float32))
