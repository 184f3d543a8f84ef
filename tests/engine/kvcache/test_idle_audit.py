"""Damage of any kind to an idle pool's books is found, a few blocks at a time."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from paceline_engine.kvcache.block_pool import BlockPool
from paceline_engine.kvcache.idle_audit import AUDITED_A_BEAT, IdleAudit
from paceline_engine.kvcache.integrity import KvIntegrityError
from paceline_engine.request import CacheScope

GO = 64
POOL = 10 * GO + 1
SIZE = 4


def idle_pool(retention_s: float | None = None) -> BlockPool:
    """A third of the blocks cached, under two scopes; the others free, in no order."""
    pool, rng = BlockPool(POOL, SIZE, retention_s=retention_s), random.Random(3)
    owners = list(range(POOL // 3))
    for owner in owners:
        tokens, scope = [owner + 1] * (SIZE + 1), CacheScope(tenant="ab"[owner % 2])
        pool.admit(owner, tokens, scope, 0.0)
        pool.fill(owner, tokens, SIZE)
    rng.shuffle(owners)
    for now_s, owner in enumerate(owners):
        pool.release(owner, float(now_s))
    return pool


def goes(pool: BlockPool, audit: IdleAudit) -> int:
    """Goes that a pass takes."""
    count = 1
    while not audit.advance(pool._books(), GO):
        count += 1
    return count


Damage = Callable[[BlockPool, random.Random], None]


def doubled(pool: BlockPool, rng: random.Random) -> None:
    free = pool._ledger._free
    free[rng.randrange(len(free) - 1)] = free[-1]


def one_more(pool: BlockPool, rng: random.Random) -> None:
    pool._ledger._free.append(rng.choice(pool._ledger._free))


def lost(pool: BlockPool, rng: random.Random) -> None:
    pool._ledger._free.pop(rng.randrange(pool.num_free))


def unknown(pool: BlockPool, rng: random.Random) -> None:
    pool._ledger._free[rng.randrange(pool.num_free)] = rng.choice([POOL, -1])


def held(pool: BlockPool, _: random.Random) -> None:
    pool.admit(9999, [1], CacheScope(), 1e6)


def miscounted(pool: BlockPool, _: random.Random) -> None:
    pool._ledger._num_held += 1


def referenced(pool: BlockPool, rng: random.Random) -> None:
    pool._ledger._references[rng.randrange(POOL)] += rng.choice([1, -1])


def cached_and_free(pool: BlockPool, rng: random.Random) -> None:
    pool._ledger._free[rng.randrange(pool.num_free)] = rng.choice(list(pool._ledger._cached))


def cached_but_lost(pool: BlockPool, rng: random.Random) -> None:
    pool._ledger._index.withdraw(rng.choice(list(pool._ledger._cached)))


def free_but_found(pool: BlockPool, rng: random.Random) -> None:
    pool._ledger._index.publish(rng.choice(pool._ledger._free), b"key")


def found_in_anothers_place(pool: BlockPool, rng: random.Random) -> None:
    cached_but_lost(pool, rng)
    free_but_found(pool, rng)


def under_a_strange_key(pool: BlockPool, rng: random.Random) -> None:
    pool._ledger._index._key_of[rng.choice(list(pool._ledger._cached))] = b"other"


DAMAGES = [
    doubled,
    one_more,
    lost,
    unknown,
    held,
    miscounted,
    referenced,
    cached_and_free,
    cached_but_lost,
    free_but_found,
    found_in_anothers_place,
    under_a_strange_key,
]


@pytest.mark.behaviour(
    "an idle engine counts its blocks some at a time, and finds all that counting at once finds",
    report="own risk: the count of a pool of 65,536 blocks held up the next request for 80 ms",
)
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("seed", range(8))
def test_damage_anywhere_is_found_within_one_pass(damage: Damage, seed: int) -> None:
    pool = idle_pool()
    damage(pool, random.Random(seed))
    with pytest.raises(KvIntegrityError):
        goes(pool, pool.audit())
    with pytest.raises(KvIntegrityError):
        _count_at_once(pool)


def _count_at_once(pool: BlockPool) -> None:
    pool.check_integrity()
    pool.check_empty()


def test_a_pass_looks_at_so_many_blocks_a_go_and_ends() -> None:
    pool = idle_pool()
    assert goes(pool, pool.audit()) == -(-POOL // GO)
    large = BlockPool(65_536, 16)
    audit, count = large.audit(), 1
    while not large.audit_more(audit):
        count += 1
    assert count == 65_536 // AUDITED_A_BEAT


STABLE = [each for each in DAMAGES if each not in (held, under_a_strange_key)]
"""Damage that neither a purge mends nor expiry stumbles over before the audit comes to it."""


@pytest.mark.parametrize("damage", [None, *STABLE])
def test_expiry_and_purges_between_two_goes_hide_nothing_and_are_no_damage(
    damage: Damage | None,
) -> None:
    pool = idle_pool(retention_s=100.0)
    if damage is not None:
        damage(pool, random.Random(1))
    audit, now_s, found = pool.audit(), 150.0, False
    for go in range(4 * POOL // GO):
        try:
            if audit.advance(pool._books(), GO):
                break
        except KvIntegrityError:
            found = True
            break
        now_s += 7.0
        pool.expire(now_s)
        pool.take_wipes()
        if go == 5:
            pool.purge(now_s, tenant="a")
    else:
        raise AssertionError("a pass never ended")
    assert found is (damage is not None)
