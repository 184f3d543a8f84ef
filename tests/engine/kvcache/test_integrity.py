"""Damage of any kind to the books is found."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from paceline_engine.kvcache.block_pool import BlockPool
from paceline_engine.kvcache.integrity import KvIntegrityError
from paceline_engine.request import CacheScope


def pool_in_use() -> BlockPool:
    """One block cached, two held (one by two requests), one free."""
    pool = BlockPool(4, 4)
    scope = CacheScope()
    pool.admit(1, range(4), scope, 0.0)
    pool.fill(1, range(4), 4)
    pool.release(1, 0.0)
    pool.admit(2, range(10, 17), scope, 0.0)
    pool.fork(2, 3, range(10, 14))
    return pool


def doubled(pool: BlockPool) -> None:
    pool._ledger._free.append(pool._tables[2].block_ids[0])


def lost(pool: BlockPool) -> None:
    pool._ledger._free.pop()


def unknown(pool: BlockPool) -> None:
    pool._ledger._free[0] = 99


def miscounted(pool: BlockPool) -> None:
    pool._ledger._num_held += 1


def referenced_too_often(pool: BlockPool) -> None:
    pool._ledger._references[pool._tables[2].block_ids[0]] += 1


def twice_in_a_table(pool: BlockPool) -> None:
    pool._tables[2].block_ids[1] = pool._tables[2].block_ids[0]


def cached_and_free(pool: BlockPool) -> None:
    (cached,) = pool._ledger._cached
    pool._ledger._free.append(cached)


def cached_but_lost(pool: BlockPool) -> None:
    (cached,) = pool._ledger._cached
    pool._ledger._index.withdraw(cached)


def free_but_found(pool: BlockPool) -> None:
    pool._ledger._index.publish(pool._ledger._free[0], b"key")


def under_a_strange_key(pool: BlockPool) -> None:
    (cached,) = pool._ledger._cached
    pool._ledger._index._key_of[cached] = b"other"


@pytest.mark.parametrize(
    "damage",
    [
        doubled,
        lost,
        unknown,
        miscounted,
        referenced_too_often,
        twice_in_a_table,
        cached_and_free,
        cached_but_lost,
        free_but_found,
        under_a_strange_key,
    ],
)
@pytest.mark.behaviour(
    "free, cached and held blocks add up to the pool, counted when idle and in every test",
    report="sglang #6888, #11970, #10833, #7130: KV blocks leaked and nobody noticed",
)
def test_damage_is_found(damage: Callable[[BlockPool], None]) -> None:
    pool = pool_in_use()
    pool.check_integrity()
    assert (pool.num_free, pool.num_cached, pool.num_held) == (1, 1, 2)
    damage(pool)
    with pytest.raises(KvIntegrityError):
        pool.check_integrity()
