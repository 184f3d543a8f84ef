"""Cached, forked and wiped blocks on real KV tensors, in every block size."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from paceline_engine.kernels.choice import choose_kernels
from paceline_engine.kernels.cpu import artifact
from paceline_engine.kernels.cpu.library import CpuKernels
from paceline_engine.kernels.reference import ReferenceKernels
from paceline_engine.kvcache.block_pool import BlockPool
from paceline_engine.request import CacheScope
from paceline_engine.runner.cpu import CpuRunner
from paceline_engine.scheduler.output import SchedulerOutput
from tests.support import tiny_llama
from tests.support.steps import chunk, cpu_config

VOCABULARY = tiny_llama.SHAPE["vocab_size"]
SCOPE = CacheScope()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_llama.write(tmp_path_factory.mktemp("tiny"))


def runner_for(model: Path, block_size: int = 16) -> CpuRunner:
    return CpuRunner(cpu_config(model, vocab_size=VOCABULARY, block_size=block_size))


def prompt(length: int, seed: int = 3) -> list[int]:
    drawn: list[int] = np.random.default_rng(seed).integers(0, VOCABULARY, length).tolist()
    return drawn


def next_token(
    runner: CpuRunner,
    tokens: Sequence[int],
    start: int,
    blocks: Sequence[int],
    copies: Sequence[tuple[int, int]] = (),
    wipes: Sequence[int] = (),
) -> int:
    """Computes tokens[start:] against what the blocks hold, and draws the next one."""
    size = runner._config.block_size
    used = list(blocks)[: -(-len(tokens) // size)]
    step = SchedulerOutput(
        step_id=0,
        chunks=(chunk(tokens[start:], start, used),),
        budget=256,
        copies=tuple(copies),
        wipes=tuple(wipes),
    )
    ((_, token),) = runner.execute(step).sampled
    return token


def block_of(runner: CpuRunner, block: int) -> list[torch.Tensor]:
    return [part[block].clone() for layer in runner._cache for part in (layer.keys, layer.values)]


def is_zero(runner: CpuRunner, block: int) -> bool:
    return not any(part.any() for part in block_of(runner, block))


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "reference"])
@pytest.mark.parametrize("block_size", [8, 16, 32, 64])
@pytest.mark.behaviour(
    "a prompt whose beginning is cached gives the token it gives without a cache",
    report="llama.cpp #28368, #28527: reusing a prefix changed greedy output",
)
def test_a_hit_changes_no_token(
    model: Path,
    block_size: int,
    compiled: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not compiled:
        monkeypatch.setenv(artifact.DIRECTORY_VARIABLE, str(tmp_path))
    kind = CpuKernels if compiled else ReferenceKernels
    assert isinstance(choose_kernels(tiny_llama.SHAPE["head_dim"], block_size), kind)
    runner, pool = runner_for(model, block_size), BlockPool(64, block_size)
    for length in (block_size, 2 * block_size, 2 * block_size + 3):
        tokens = prompt(length, seed=length)
        assert pool.admit(1, tokens, SCOPE, 0.0) == 0
        cold = next_token(runner, tokens, 0, pool.table(1))
        pool.fill(1, tokens, length)
        pool.release(1, 0.0)
        hits = pool.admit(2, tokens, SCOPE, 0.0)
        assert hits == (length - 1) // block_size * block_size
        assert next_token(runner, tokens, hits, pool.table(2)) == cold
        pool.release(2, 0.0)


def test_forks_go_their_own_way_from_copied_blocks(model: Path) -> None:
    runner, pool = runner_for(model), BlockPool(64, 16)
    tokens = prompt(21)
    pool.admit(1, tokens, SCOPE, 0.0)
    next_token(runner, tokens, 0, pool.table(1))
    pool.fill(1, tokens, 21)
    pool.fork(1, 2, tokens)
    before = block_of(runner, pool.table(1)[1])
    for owner, drawn in ((1, 7), (2, 9)):
        longer = [*tokens, drawn]
        copies = pool.writable(owner, 21, 22, 0.0)
        assert copies is not None
        assert len(copies) == (owner == 1)
        got = next_token(runner, longer, 21, pool.table(owner), copies)
        alone = next_token(runner_for(model), longer, 0, [5, 6])
        assert got == alone
    kept = block_of(runner, pool.table(1)[1])
    assert all(
        torch.equal(a[..., :5], b[..., :5]) if i % 2 == 0 else torch.equal(a[:, :5], b[:, :5])
        for i, (a, b) in enumerate(zip(before, kept, strict=True))
    ), "the first branch still reads what the prompt computed"


def test_copies_come_before_wipes_and_both_before_computing(model: Path) -> None:
    """A block may be let go, and be wiped, in the step in which another is copied from it."""
    runner = runner_for(model)
    tokens = prompt(20)
    next_token(runner, tokens, 0, [0, 1])
    longer = [*tokens, 7]
    expected = next_token(runner_for(model), longer, 0, [0, 1])
    got = next_token(runner, longer, 20, [0, 2], copies=[(1, 2)], wipes=[1])
    assert got == expected
    assert is_zero(runner, 1)
    assert next_token(runner, longer, 0, [1, 3], wipes=[1, 3]) == expected


def test_a_wipe_between_steps_leaves_zeros(model: Path) -> None:
    runner = runner_for(model)
    tokens = prompt(40)
    token = next_token(runner, tokens, 0, [0, 1, 2])
    assert not is_zero(runner, 1)
    kept = block_of(runner, 0)
    runner.wipe([1, 2])
    assert is_zero(runner, 1)
    assert is_zero(runner, 2)
    assert all(torch.equal(a, b) for a, b in zip(block_of(runner, 0), kept, strict=True))
    assert next_token(runner, tokens, 16, [0, 1, 2]) == token
    runner.wipe([])


@pytest.mark.parametrize("block_size", [8, 16, 32, 64])
def test_purged_blocks_hold_nothing_of_the_prompt(model: Path, block_size: int) -> None:
    runner, pool = runner_for(model, block_size), BlockPool(64, block_size)
    tokens = prompt(3 * block_size - 1)
    pool.admit(1, tokens, SCOPE, 0.0)
    next_token(runner, tokens, 0, pool.table(1))
    pool.fill(1, tokens, len(tokens))
    used = list(pool.table(1))
    pool.release(1, 0.0)
    purged = pool.purge(0.0)
    runner.wipe(purged.block_ids)
    assert sorted(purged.block_ids) == sorted(used)
    assert all(is_zero(runner, block) for block in range(64))


def test_a_request_that_reads_no_cache_computes_the_same(model: Path) -> None:
    runner, pool = runner_for(model), BlockPool(64, 16)
    tokens = prompt(33)
    pool.admit(1, tokens, SCOPE, 0.0)
    first = next_token(runner, tokens, 0, pool.table(1))
    pool.fill(1, tokens, 33)
    assert pool.admit(2, tokens, SCOPE, 0.0, read_cache=False) == 0
    assert next_token(runner, tokens, 0, pool.table(2)) == first
