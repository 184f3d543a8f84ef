"""Blocks are neither lost nor doubled, whatever owners do."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from paceline_engine.kvcache.block_pool import BlockPool, KvIntegrityError

OWNERS = st.integers(0, 5)


class PoolMachine(RuleBasedStateMachine):
    """Owners that grow and release at random, against a model that only counts."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = BlockPool(num_blocks=12, block_size=4)
        self.counts: dict[int, int] = {}

    @rule(owner=OWNERS, num_tokens=st.integers(0, 60))
    def grow(self, owner: int, num_tokens: int) -> None:
        before = list(self.pool.table(owner))
        wanted = max(-(-num_tokens // 4), len(before))
        fits = wanted - len(before) <= self.pool.num_free
        assert self.pool.grow(owner, num_tokens) is fits
        table = list(self.pool.table(owner))
        assert table[: len(before)] == before
        assert len(table) == (wanted if fits else len(before))
        if table:
            self.counts[owner] = len(table)

    @precondition(lambda self: self.counts)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        owner = data.draw(st.sampled_from(sorted(self.counts)))
        assert self.pool.release(owner) == self.counts.pop(owner)
        assert self.pool.table(owner) == ()
        assert self.pool.release(owner) == 0

    @invariant()
    def every_block_is_in_one_place(self) -> None:
        self.pool.check_integrity()
        assert self.pool.num_held == sum(self.counts.values())
        total = self.pool.num_free + self.pool.num_cached + self.pool.num_held
        assert total == self.pool.num_blocks

    @invariant()
    def empty_means_nobody_holds(self) -> None:
        if self.counts:
            with pytest.raises(KvIntegrityError, match="still held"):
                self.pool.check_empty()
        else:
            self.pool.check_empty()


TestPool = PoolMachine.TestCase
TestPool.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


@pytest.mark.parametrize(
    ("num_tokens", "blocks"), [(0, 0), (1, 1), (15, 1), (16, 1), (17, 2), (160, 10)]
)
def test_blocks_for(num_tokens: int, blocks: int) -> None:
    assert BlockPool(1, 16).blocks_for(num_tokens) == blocks


def test_a_grant_is_all_or_nothing() -> None:
    pool = BlockPool(num_blocks=4, block_size=16)
    assert pool.grow(1, 16 * 3)
    assert not pool.grow(2, 16 * 2)
    assert pool.table(2) == ()
    assert pool.num_free == 1


def test_blocks_used_last_are_given_out_first() -> None:
    """Warm memory first."""
    pool = BlockPool(num_blocks=8, block_size=1)
    pool.grow(1, 2)
    pool.grow(2, 2)
    released = list(pool.table(1))
    pool.release(1)
    pool.grow(3, 2)
    assert list(pool.table(3)) == released


@pytest.mark.parametrize(("num_blocks", "block_size"), [(0, 16), (4, 0)])
def test_a_pool_without_room_is_refused(num_blocks: int, block_size: int) -> None:
    with pytest.raises(ValueError, match="holds nothing"):
        BlockPool(num_blocks, block_size)


def doubled(pool: BlockPool) -> None:
    pool._free.append(pool._tables[1][0])


def lost(pool: BlockPool) -> None:
    pool._free.pop()


def unknown(pool: BlockPool) -> None:
    pool._free[0] = 99


def miscounted(pool: BlockPool) -> None:
    pool._num_held += 1


@pytest.mark.parametrize("damage", [doubled, lost, unknown, miscounted])
def test_damage_is_found(damage: object) -> None:
    pool = BlockPool(num_blocks=4, block_size=16)
    pool.grow(1, 20)
    assert callable(damage)
    damage(pool)
    with pytest.raises(KvIntegrityError):
        pool.check_integrity()
