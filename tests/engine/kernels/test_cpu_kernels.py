"""C++ kernels against the plain torch ones, over shapes even and odd."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch

from paceline_engine.kernels.cpu import artifact
from paceline_engine.kernels.cpu.library import CpuKernels
from paceline_engine.kernels.operands import LayerCache, RotaryTable, StepBatch
from paceline_engine.kernels.reference import ReferenceKernels
from paceline_engine.layers.rotary import rotary_table

REFERENCE = ReferenceKernels()
TOLERANCE = {"rtol": 2e-5, "atol": 2e-5}


@pytest.fixture(scope="module")
def compiled() -> CpuKernels:
    path = artifact.find()
    assert path, "run `python -m paceline_engine.kernels.cpu.build`"
    return CpuKernels(path)


@dataclass(frozen=True)
class Case:
    """Heads, block size and (context, new tokens) of each sequence in a step."""

    chunks: tuple[tuple[int, int], ...]
    heads: int = 9
    kv_heads: int = 3
    head_dim: int = 64
    block_size: int = 16

    @property
    def width(self) -> int:
        return (self.heads + 2 * self.kv_heads) * self.head_dim


CASES = {
    "first token": Case(((0, 1),)),
    "decode at a block's edge": Case(((15, 1), (16, 1), (17, 1))),
    "decode past a panel": Case(((63, 1), (64, 1), (200, 1))),
    "prefill shorter than a tile": Case(((0, 7),)),
    "prefill past a tile and a panel": Case(((0, 83),)),
    "chunk against context": Case(((37, 29), (100, 1), (64, 64))),
    "mixed with many heads to a group": Case(((5, 1), (0, 19)), heads=14, kv_heads=2),
    "one head to a group": Case(((70, 1), (3, 18)), heads=4, kv_heads=4, head_dim=32),
    "head of 8, block of 8": Case(((9, 1), (0, 21)), heads=2, kv_heads=1, head_dim=8, block_size=8),
    "head of 80, block of 32": Case(((40, 1), (31, 33)), heads=5, kv_heads=5, head_dim=80,
                                    block_size=32),
    "head of 128, block of 128": Case(((130, 1), (0, 140)), heads=8, kv_heads=1, head_dim=128,
                                      block_size=128),
    "block of 24": Case(((47, 1), (20, 60)), heads=6, kv_heads=2, head_dim=40, block_size=24),
}  # fmt: skip


@dataclass(frozen=True)
class Step:
    qkv: torch.Tensor
    batch: StepBatch
    cache: LayerCache
    rotary: RotaryTable


def make_step(case: Case, seed: int = 0) -> Step:
    """A step over a cache whose blocks are handed out in random order."""
    draw = torch.Generator().manual_seed(seed)
    tables_needed = [-(-(c + n) // case.block_size) for c, n in case.chunks]
    order = torch.randperm(sum(tables_needed) + 3, generator=draw)
    tables = torch.zeros(len(case.chunks), max(tables_needed), dtype=torch.int64)
    taken = 0
    for row, needed in enumerate(tables_needed):
        tables[row, :needed] = order[taken : taken + needed]
        taken += needed
    positions, slots = [], []
    for row, (context, new) in enumerate(case.chunks):
        for position in range(context, context + new):
            positions.append(position)
            block = int(tables[row, position // case.block_size])
            slots.append(block * case.block_size + position % case.block_size)
    starts = torch.tensor([0, *(n for _, n in case.chunks)]).cumsum(0)
    batch = StepBatch(
        positions=torch.tensor(positions),
        slots=torch.tensor(slots),
        tables=tables,
        starts=starts,
        contexts=torch.tensor([c for c, _ in case.chunks]),
    )
    keys = (len(order), case.kv_heads, case.head_dim, case.block_size)
    values = (len(order), case.kv_heads, case.block_size, case.head_dim)
    cache = LayerCache(torch.randn(keys, generator=draw), torch.randn(values, generator=draw))
    qkv = torch.randn(len(positions), case.width, generator=draw)
    return Step(qkv, batch, cache, rotary_table(case.head_dim, 10_000.0, max(positions) + 1))


def copied(step: Step) -> Step:
    cache = LayerCache(step.cache.keys.clone(), step.cache.values.clone())
    return replace(step, qkv=step.qkv.clone(), cache=cache)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_rope_store_writes_what_the_reference_writes(compiled: CpuKernels, case: Case) -> None:
    expected, step = make_step(case), make_step(case)
    REFERENCE.rope_store(expected.qkv, expected.rotary, expected.batch, expected.cache)
    compiled.rope_store(step.qkv, step.rotary, step.batch, step.cache)
    queries = case.heads * case.head_dim
    torch.testing.assert_close(step.qkv[:, :queries], expected.qkv[:, :queries], **TOLERANCE)
    torch.testing.assert_close(step.cache.keys, expected.cache.keys, **TOLERANCE)
    torch.testing.assert_close(step.cache.values, expected.cache.values, rtol=0, atol=0)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_attention_equals_the_reference(compiled: CpuKernels, case: Case) -> None:
    step = make_step(case)
    expected = REFERENCE.paged_attention(step.qkv, step.batch, step.cache)
    actual = compiled.paged_attention(step.qkv, step.batch, step.cache)
    torch.testing.assert_close(actual, expected, **TOLERANCE)


WINDOWS = (1, 2, 15, 16, 17, 63, 64, 65, 100, 1_000)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_attention_in_a_window_equals_the_reference(
    compiled: CpuKernels, case: Case, window: int
) -> None:
    step = make_step(case)
    expected = REFERENCE.paged_attention(step.qkv, step.batch, step.cache, window)
    actual = compiled.paged_attention(step.qkv, step.batch, step.cache, window)
    torch.testing.assert_close(actual, expected, **TOLERANCE)


@pytest.mark.parametrize("window", [1_000, 151])
def test_a_window_beyond_the_sequence_changes_no_bit(compiled: CpuKernels, window: int) -> None:
    step = make_step(Case(((0, 150), (33, 5), (90, 1))))
    expected = compiled.paged_attention(step.qkv, step.batch, step.cache)
    assert torch.equal(compiled.paged_attention(step.qkv, step.batch, step.cache, window), expected)


@pytest.mark.parametrize("factor", [1e-3, 30.0], ids=["flat", "peaked"])
def test_attention_holds_for_flat_and_peaked_scores(compiled: CpuKernels, factor: float) -> None:
    step = make_step(CASES["chunk against context"])
    step.qkv.mul_(factor)
    expected = REFERENCE.paged_attention(step.qkv, step.batch, step.cache)
    actual = compiled.paged_attention(step.qkv, step.batch, step.cache)
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("window", [0, 3, 40, 64, 90])
def test_a_row_is_the_same_alone_in_a_chunk_and_in_a_batch(
    compiled: CpuKernels, window: int
) -> None:
    """Bit by bit: attention never depends on how tokens are grouped into steps."""
    step = make_step(Case(((0, 150), (33, 5), (90, 1))))
    together = compiled.paged_attention(step.qkv, step.batch, step.cache, window)
    for row in (0, 15, 16, 63, 64, 100, 149):
        batch = StepBatch(
            positions=step.batch.positions[row : row + 1],
            slots=step.batch.slots[row : row + 1],
            tables=step.batch.tables[:1].contiguous(),
            starts=torch.tensor([0, 1]),
            contexts=torch.tensor([row]),
        )
        query = step.qkv[row : row + 1].contiguous()
        alone = compiled.paged_attention(query, batch, step.cache, window)
        assert torch.equal(alone[0], together[row])


def test_blocks_of_others_and_stale_tails_are_never_read(compiled: CpuKernels) -> None:
    case = Case(((37, 1), (0, 21)))
    step = make_step(case)
    expected = compiled.paged_attention(step.qkv, step.batch, step.cache)
    poisoned = copied(step)
    own = [(row, position) for row, (c, n) in enumerate(case.chunks) for position in range(c + n)]
    keys = torch.full_like(step.cache.keys, math.nan)
    values = torch.full_like(step.cache.values, math.nan)
    for row, position in own:
        block = step.batch.tables[row, position // case.block_size]
        offset = position % case.block_size
        keys[block, :, :, offset] = step.cache.keys[block, :, :, offset]
        values[block, :, offset] = step.cache.values[block, :, offset]
    actual = compiled.paged_attention(poisoned.qkv, step.batch, LayerCache(keys, values))
    assert torch.equal(actual, expected)


@pytest.mark.parametrize("poison", [math.nan, math.inf])
def test_a_bad_query_spoils_its_own_row_only(compiled: CpuKernels, poison: float) -> None:
    step = make_step(CASES["chunk against context"])
    expected = compiled.paged_attention(step.qkv, step.batch, step.cache)
    step.qkv[3, 0] = poison
    actual = compiled.paged_attention(step.qkv, step.batch, step.cache)
    assert not actual[3, :64].isfinite().any()
    rows = torch.arange(actual.shape[0]) != 3
    assert torch.equal(actual[rows], expected[rows])


SIZES = [(1, 1), (1, 8), (3, 9), (5, 576), (33, 1537), (64, 1536)]


@pytest.mark.parametrize(("rows", "width"), SIZES)
def test_norms_equal_the_reference(compiled: CpuKernels, rows: int, width: int) -> None:
    draw = torch.Generator().manual_seed(rows)
    x, residual = torch.randn(2, rows, width, generator=draw)
    weight = torch.randn(width, generator=draw)
    torch.testing.assert_close(
        compiled.rms_norm(x, weight, 1e-5), REFERENCE.rms_norm(x, weight, 1e-5), **TOLERANCE
    )
    expected_residual, actual_residual = residual.clone(), residual.clone()
    expected = REFERENCE.add_rms_norm(x, expected_residual, weight, 1e-5)
    actual = compiled.add_rms_norm(x, actual_residual, weight, 1e-5)
    torch.testing.assert_close(actual, expected, **TOLERANCE)
    assert torch.equal(actual_residual, expected_residual)


@pytest.mark.parametrize(("heads", "kv_heads", "head_dim"), [(4, 2, 16), (3, 1, 40), (1, 1, 6)])
def test_norms_of_heads_equal_the_reference(
    compiled: CpuKernels, heads: int, kv_heads: int, head_dim: int
) -> None:
    draw = torch.Generator().manual_seed(heads)
    qkv = torch.randn(7, (heads + 2 * kv_heads) * head_dim, generator=draw)
    weight = torch.randn(heads + kv_heads, head_dim, generator=draw)
    expected, actual = qkv.clone(), qkv.clone()
    REFERENCE.head_norm(expected, weight, 1e-5)
    compiled.head_norm(actual, weight, 1e-5)
    torch.testing.assert_close(actual, expected, **TOLERANCE)
    values = kv_heads * head_dim
    assert torch.equal(actual[:, -values:], qkv[:, -values:])


@pytest.mark.parametrize(("rows", "width"), SIZES)
def test_silu_mul_equals_the_reference(compiled: CpuKernels, rows: int, width: int) -> None:
    gate_up = torch.randn(rows, 2 * width, generator=torch.Generator().manual_seed(width)) * 30
    torch.testing.assert_close(
        compiled.silu_mul(gate_up), REFERENCE.silu_mul(gate_up), rtol=2e-6, atol=1e-6
    )


def test_silu_mul_keeps_extremes_and_nan(compiled: CpuKernels) -> None:
    gate = torch.tensor([-1e30, -200.0, -88.0, 0.0, 88.0, 200.0, 1e30, math.nan] * 2)
    gate_up = torch.cat((gate, torch.ones(16))).unsqueeze(0)
    actual = compiled.silu_mul(gate_up)[0, :8]
    assert actual[7].isnan()
    torch.testing.assert_close(actual[3:7], torch.tensor([0.0, 88.0, 200.0, 1e30]))
    assert actual[1:3].abs().max() < 1e-30


def test_one_openmp_runtime_is_in_the_process(compiled: CpuKernels) -> None:
    assert compiled
    maps = Path("/proc/self/maps").read_text()
    assert len({line.split()[-1] for line in maps.splitlines() if "libgomp" in line}) == 1
