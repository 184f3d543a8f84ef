"""A request without room costs nothing while nothing has changed for it."""

from __future__ import annotations

import pytest

from paceline_engine.kvcache import prefix_chain
from paceline_engine.kvcache.block_pool import BlockPool
from paceline_engine.kvcache.lookup import REMEMBERED, LookupMemory
from paceline_engine.kvcache.prefix_index import PrefixIndex
from paceline_engine.kvcache.prefix_key import block_key
from paceline_engine.request import CacheScope

SCOPE = CacheScope(tenant="a")
SIZE = 4


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was done: `hash` for a block's key computed, `find` for one looked up."""
    done: list[str] = []
    find = PrefixIndex.find

    def hashing(parent: bytes, token_ids: list[int]) -> bytes:
        done.append("hash")
        return block_key(parent, token_ids)

    def finding(index: PrefixIndex, key: bytes) -> int | None:
        done.append("find")
        return find(index, key)

    monkeypatch.setattr(prefix_chain, "block_key", hashing)
    monkeypatch.setattr(PrefixIndex, "find", finding)
    return done


def test_a_lookup_is_for_the_same_tokens_and_scope_only() -> None:
    memory, tokens = LookupMemory("r", SIZE), [1, 2, 3]
    for other_tokens, scope in ((list(tokens), SCOPE), (tokens, CacheScope(tenant="b"))):
        lookup = memory.take(7, tokens, SCOPE)
        memory.keep(7, lookup)
        assert memory.take(7, tokens, SCOPE) is lookup
        memory.keep(7, lookup)
        assert memory.take(7, other_tokens, scope) is not lookup


def test_only_a_few_are_remembered() -> None:
    memory, tokens = LookupMemory("r", SIZE), [1, 2, 3]
    lookups = [memory.take(owner, tokens, SCOPE) for owner in range(REMEMBERED + 1)]
    for owner, lookup in enumerate(lookups):
        memory.keep(owner, lookup)
    assert memory.take(0, tokens, SCOPE) is not lookups[0]
    assert memory.take(1, tokens, SCOPE) is lookups[1]


def full_pool(tokens: range) -> BlockPool:
    """Owner 1 holds the first 8 blocks of `tokens`, findable; owner 2 four; none is free."""
    pool = BlockPool(12, SIZE)
    pool.admit(1, tokens[: 8 * SIZE], SCOPE, 0.0)
    pool.fill(1, tokens[: 8 * SIZE], 8 * SIZE)
    pool.admit(2, range(900, 900 + 4 * SIZE), SCOPE, 0.0)
    return pool


def test_a_refused_request_is_looked_up_once(seen: list[str]) -> None:
    tokens = range(10 * SIZE)
    pool = full_pool(tokens)
    seen.clear()
    assert pool.admit(3, tokens, SCOPE, 0.0) is None
    assert seen.count("find") == 9
    seen.clear()
    for _ in range(3):
        assert pool.admit(3, tokens, SCOPE, 0.0) is None
        assert pool.missing(3, tokens, SCOPE) == 2
        assert pool.missing(3, tokens, SCOPE, spare=3) == 5
    pool.fill(2, range(900, 900 + 4 * SIZE), SIZE)
    assert pool.admit(3, tokens, SCOPE, 0.0) is None
    assert seen == [], "one block of owner 2 cannot have filled two"
    seen.clear()
    pool.release(2, 0.0)
    assert pool.admit(3, tokens, SCOPE, 0.0) == 8 * SIZE
    assert seen.count("hash") == 0


def test_blocks_filled_meanwhile_are_seen() -> None:
    """It lacked all of them while they were computed, and none once they are."""
    tokens = range(4 * SIZE + 1)
    pool = BlockPool(5, SIZE)
    pool.admit(1, tokens[:-1], SCOPE, 0.0)
    assert pool.admit(2, tokens, SCOPE, 0.0) is None
    assert pool.missing(2, tokens, SCOPE) == 4
    pool.fill(1, tokens[:-1], 4 * SIZE)
    assert pool.missing(2, tokens, SCOPE) == 0
    assert pool.admit(2, tokens, SCOPE, 0.0) == 4 * SIZE


def test_a_cached_block_is_missing_like_a_fresh_one() -> None:
    """Nobody holds it: sharing it takes it from those that are available."""
    tokens = range(4 * SIZE + 1)
    pool = BlockPool(6, SIZE)
    pool.admit(1, tokens[:-1], SCOPE, 0.0)
    pool.fill(1, tokens[:-1], 4 * SIZE)
    pool.release(1, 0.0)
    pool.admit(2, range(900, 900 + 2 * SIZE), SCOPE, 0.0)
    assert (pool.num_cached, pool.missing(3, tokens, SCOPE)) == (4, 1)
    assert pool.missing(3, tokens, SCOPE, without=[2]) == 0
    pool.release(2, 0.0)
    assert pool.admit(3, tokens, SCOPE, 0.0) == 4 * SIZE


def test_what_others_hold_too_is_not_freed() -> None:
    pool = BlockPool(8, SIZE)
    tokens = list(range(2 * SIZE))
    pool.admit(1, tokens, SCOPE, 0.0)
    pool.fill(1, tokens, 2 * SIZE)
    pool.fork(1, 2, tokens)
    pool.admit(3, range(50, 50 + SIZE), SCOPE, 0.0)
    freed = [pool.freed_by(owners) for owners in ([], [1], [2], [1, 3], [1, 2], [1, 2, 3], [1, 9])]
    assert freed == [0, 0, 0, 1, 2, 3, 0]


def test_hits_that_only_a_leaving_owner_holds_are_missing_with_it() -> None:
    """Its blocks become available, and are taken again at once: nothing is gained."""
    tokens = range(10 * SIZE)
    pool = full_pool(tokens)
    assert pool.missing(3, tokens, SCOPE) == 2
    assert pool.freed_by([1]) == 8
    assert pool.missing(3, tokens, SCOPE, without=[1]) == 2
    assert pool.missing(3, tokens, SCOPE, without=[2]) == 0
    pool.release(1, 0.0)
    assert pool.admit(3, tokens, SCOPE, 0.0) is None
    assert pool.missing(3, tokens, SCOPE) == 2


def test_without_reading_or_without_a_cache_every_block_is_missing() -> None:
    tokens = range(10 * SIZE)
    assert full_pool(tokens).missing(3, tokens, SCOPE, read_cache=False) == 10
    pool = BlockPool(4, SIZE, prefix_caching=False)
    assert pool.missing(1, tokens, SCOPE) == 6
