"""Whole blocks copied and overwritten in all layers at once."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from paceline_engine.kernels.operands import LayerCache
from paceline_engine.layers.kv_cache import copy_blocks, wipe_blocks

BLOCKS = 6
IDS = st.integers(0, BLOCKS - 1)


def random_cache(layers: int = 3, block_size: int = 4) -> list[LayerCache]:
    draw = torch.Generator().manual_seed(1)
    keys, values = (BLOCKS, 2, 8, block_size), (BLOCKS, 2, block_size, 8)
    return [
        LayerCache(torch.randn(keys, generator=draw), torch.randn(values, generator=draw))
        for _ in range(layers)
    ]


def tensors(cache: list[LayerCache]) -> list[torch.Tensor]:
    return [blocks for layer in cache for blocks in (layer.keys, layer.values)]


@given(copies=st.lists(st.tuples(IDS, IDS), max_size=8))
def test_copies_are_as_if_made_one_after_the_other(copies: list[tuple[int, int]]) -> None:
    cache, expected = random_cache(), tensors(random_cache())
    for source, destination in copies:
        for blocks in expected:
            blocks[destination] = blocks[source].clone()
    copy_blocks(cache, copies)
    for got, wanted in zip(tensors(cache), expected, strict=True):
        assert torch.equal(got, wanted)


@pytest.mark.parametrize("block_ids", [(), (2,), (0, 5, 3)])
def test_a_wipe_leaves_zeros_and_touches_nothing_else(block_ids: tuple[int, ...]) -> None:
    cache, before = random_cache(), tensors(random_cache())
    cache[0].keys[2, 0, 0, 0] = torch.nan
    wipe_blocks(cache, block_ids)
    cache[0].keys[2, 0, 0, 0] = before[0][2, 0, 0, 0] if 2 not in block_ids else 0.0
    for got, wanted in zip(tensors(cache), before, strict=True):
        for block in range(BLOCKS):
            kept = torch.zeros_like(wanted[block]) if block in block_ids else wanted[block]
            assert torch.equal(got[block], kept)
