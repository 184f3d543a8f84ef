"""KV tensors of all layers, allocated once for the whole pool, and what is done to whole blocks."""

from __future__ import annotations

from collections.abc import Sequence

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


def copy_blocks(cache: Sequence[LayerCache], copies: Sequence[tuple[int, int]]) -> None:
    """Copies whole blocks in every layer, as if one after the other in the given order.

    Args:
        cache: All layers.
        copies: (source, destination) block ids; a destination may be a later source.
    """
    origins = _origins(copies)
    if not origins:
        return
    sources, destinations = torch.tensor(list(origins.values())), torch.tensor(list(origins))
    for layer in cache:
        for blocks in (layer.keys, layer.values):
            blocks.index_copy_(0, destinations, blocks.index_select(0, sources))


def wipe_blocks(cache: Sequence[LayerCache], block_ids: Sequence[int]) -> None:
    """Overwrites blocks with zeros in every layer."""
    if not block_ids:
        return
    ids = torch.tensor(block_ids)
    for layer in cache:
        layer.keys.index_fill_(0, ids, 0)
        layer.values.index_fill_(0, ids, 0)


def _origins(copies: Sequence[tuple[int, int]]) -> dict[int, int]:
    """Destination -> the block whose content of before all copies it ends up with."""
    origins: dict[int, int] = {}
    for source, destination in copies:
        origins[destination] = origins.get(source, source)
    return origins


def _zeros(shape: tuple[int, ...]) -> torch.Tensor:
    return torch.from_numpy(np.zeros(shape, np.float32))
