"""What the block pool promises, one promise at a time; `_properties` tries everything at once."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from paceline_engine.kvcache.block_ledger import EXPIRED_A_ROUND
from paceline_engine.kvcache.block_pool import BlockPool
from paceline_engine.request import CacheScope

A = CacheScope(tenant="a")
SIZE = 4


def computed(pool: BlockPool, owner: int, tokens: Sequence[int], now_s: float = 0.0) -> int:
    """Admits and computes all of `tokens`; returns the hits."""
    hits = pool.admit(owner, tokens, A, now_s)
    assert hits is not None
    pool.fill(owner, tokens, len(tokens))
    return hits


def left_behind(pool: BlockPool, owner: int, tokens: Sequence[int], now_s: float = 0.0) -> None:
    """Computes `tokens` and lets go."""
    computed(pool, owner, tokens, now_s)
    pool.release(owner, now_s)


@pytest.mark.parametrize(
    ("num_tokens", "blocks"), [(0, 0), (1, 1), (15, 1), (16, 1), (17, 2), (160, 10)]
)
def test_blocks_for(num_tokens: int, blocks: int) -> None:
    assert BlockPool(1, 16).blocks_for(num_tokens) == blocks


@pytest.mark.parametrize(("num_blocks", "block_size"), [(0, 16), (4, 0)])
def test_a_pool_without_room_is_refused(num_blocks: int, block_size: int) -> None:
    with pytest.raises(ValueError, match="holds nothing"):
        BlockPool(num_blocks, block_size)


def test_a_grant_is_all_or_nothing() -> None:
    pool = BlockPool(4, SIZE)
    assert pool.admit(1, range(10), A, 0.0) == 0
    assert not pool.grow(1, 17)
    assert len(pool.table(1)) == 3
    assert pool.admit(2, range(5), A, 0.0) is None
    assert pool.table(2) == ()
    assert pool.admit(2, range(4), A, 0.0, spare=1) is None
    assert pool.num_free == 1
    assert pool.admit(2, range(4), A, 0.0) == 0


def test_an_owner_is_admitted_once() -> None:
    pool = BlockPool(4, SIZE)
    computed(pool, 1, range(4))
    with pytest.raises(ValueError, match="holds blocks already"):
        pool.admit(1, range(4), A, 0.0)


def test_blocks_used_last_are_given_out_first() -> None:
    """Warm memory first."""
    pool = BlockPool(8, 1, prefix_caching=False)
    pool.admit(1, range(2), A, 0.0)
    pool.admit(2, range(2), A, 0.0)
    released = list(pool.table(1))
    pool.release(1, 0.0)
    pool.admit(3, range(2), A, 0.0)
    assert list(pool.table(3)) == released


@pytest.mark.parametrize("length", [SIZE, 2 * SIZE, 2 * SIZE + 1])
@pytest.mark.behaviour(
    "at least the last token of a prompt is computed, however much of it is cached",
    report="vllm PR #11186; nano-vllm PR #199: a fully cached prompt left nothing to run",
)
def test_the_last_token_is_never_a_hit(length: int) -> None:
    pool = BlockPool(8, SIZE)
    left_behind(pool, 1, range(length))
    hits = computed(pool, 2, range(length))
    assert hits == (length - 1) // SIZE * SIZE < length


@pytest.mark.behaviour(
    "a look-up pins what it finds and counts it in the same step",
    report="nano-vllm PR #210; vllm PR #17305: a hit or a count from an earlier look-up went stale",
)
def test_a_hit_cannot_be_given_out_meanwhile() -> None:
    pool = BlockPool(4, SIZE)
    left_behind(pool, 1, range(8))
    cached = pool.num_cached
    assert cached == 2
    assert pool.admit(2, range(9), A, 1.0) == 8
    assert (pool.queries_tokens, pool.hits_tokens) == (8 + 9, 8)
    assert pool.admit(3, range(20, 24), A, 1.0) == 0
    assert pool.admit(4, range(30, 34), A, 1.0) is None
    assert not set(pool.table(2)) & set(pool.table(3))
    assert (pool.queries_tokens, pool.hits_tokens) == (8 + 9 + 4, 8)


def test_a_look_up_after_a_preemption_finds_its_own_work_and_does_not_count() -> None:
    pool = BlockPool(4, SIZE)
    left_behind(pool, 1, range(8))
    counted = (pool.queries_tokens, pool.hits_tokens)
    assert pool.admit(1, range(9), A, 1.0, counts=False) == 8
    assert (pool.queries_tokens, pool.hits_tokens) == counted


@pytest.mark.behaviour(
    "a block is a hit only after the step that filled it",
    report="vllm PR #29387: a second request of the same step took blocks for done that were "
    "still being computed",
)
def test_blocks_being_computed_are_no_hits() -> None:
    pool = BlockPool(16, SIZE)
    tokens = list(range(9))
    assert pool.admit(1, tokens, A, 0.0) == 0
    assert pool.admit(2, tokens, A, 0.0) == 0
    pool.fill(1, tokens, 7)
    assert pool.admit(3, tokens, A, 0.0) == 4
    pool.fill(1, tokens, 8)
    assert pool.admit(4, tokens, A, 0.0) == 8
    assert list(pool.table(4))[:2] == list(pool.table(1))[:2]


def test_generated_tokens_are_found_too() -> None:
    pool = BlockPool(8, SIZE)
    tokens = [1, 2, 3]
    computed(pool, 1, tokens)
    for token in (4, 5, 6, 7, 8, 9):
        tokens.append(token)
        assert pool.grow(1, len(tokens))
        pool.fill(1, tokens, len(tokens))
    pool.release(1, 0.0)
    assert pool.admit(2, [*range(1, 9), 77], A, 1.0) == 8


@pytest.mark.parametrize(
    "other",
    [CacheScope(tenant="b"), CacheScope(tenant="a", scope="k"), CacheScope(tenant="a", salt="k")],
)
@pytest.mark.behaviour(
    "tenants, authorisation scopes and salts never share a block",
    report="vllm #30931, #42125, #3264: KV was shared by a name that meant two things",
)
def test_nobody_outside_the_scope_hits(other: CacheScope) -> None:
    pool = BlockPool(8, SIZE)
    left_behind(pool, 1, range(9))
    assert pool.admit(2, range(9), other, 1.0) == 0
    assert pool.admit(3, range(9), A, 1.0) == 8


def test_without_reading_nothing_is_looked_up_but_others_find_it() -> None:
    pool = BlockPool(16, SIZE)
    left_behind(pool, 1, range(9))
    pool.purge(0.0)
    assert pool.admit(2, range(9), A, 0.0, read_cache=False) == 0
    assert pool.queries_tokens == 9  # those of request 1
    pool.fill(2, range(9), 9)
    assert pool.admit(3, range(9), A, 0.0, read_cache=False) == 0
    assert pool.admit(4, range(9), A, 0.0) == 8


def test_without_a_prefix_cache_nothing_is_kept() -> None:
    pool = BlockPool(8, SIZE, prefix_caching=False)
    left_behind(pool, 1, range(9))
    assert (pool.num_free, pool.num_cached) == (8, 0)
    assert computed(pool, 2, range(9)) == 0
    assert pool.queries_tokens == 0


def test_the_longest_unused_goes_first_and_a_tail_before_its_head() -> None:
    pool = BlockPool(6, SIZE)
    left_behind(pool, 1, range(12), now_s=1.0)
    left_behind(pool, 2, range(20, 32), now_s=2.0)
    assert (pool.num_free, pool.num_cached) == (0, 6)
    assert pool.admit(3, range(40, 48), A, 3.0) == 0
    pool.release(3, 3.0)
    pool.purge(3.0, older_than_s=3.0)
    assert computed(pool, 4, range(13), 4.0) == 4, "of the older one only the head is left"
    pool.release(4, 4.0)
    assert computed(pool, 5, range(20, 33), 5.0) >= 8


def test_a_hit_makes_young_again() -> None:
    pool = BlockPool(4, SIZE)
    left_behind(pool, 1, range(4), now_s=1.0)
    left_behind(pool, 2, range(10, 14), now_s=2.0)
    assert computed(pool, 3, range(5), now_s=3.0) == 4
    pool.release(3, 3.0)
    assert computed(pool, 4, range(20, 32), now_s=4.0) == 0
    pool.release(4, 4.0)
    assert computed(pool, 5, range(5), now_s=5.0) == 4
    pool.release(5, 5.0)
    assert pool.admit(6, range(10, 15), A, 6.0) == 0


def test_what_is_unused_for_the_retention_time_is_dropped() -> None:
    pool = BlockPool(8, SIZE, retention_s=10.0)
    left_behind(pool, 1, range(8), now_s=0.0)
    pool.expire(9.9)
    assert pool.num_cached == 2
    assert computed(pool, 2, range(5), now_s=9.9) == 4
    pool.expire(10.0)
    assert pool.num_cached == 0
    pool.release(2, 12.0)
    assert pool.admit(3, range(5), A, 21.9) == 4
    pool.release(3, 21.9)
    assert pool.admit(4, range(5), A, 31.9) == 0, "an admission expires first"


@pytest.mark.behaviour(
    "what a failed request computed is found by nobody and overwritten",
    report="vllm #53029 as a kind: rows that are not finite outlived their request",
)
def test_what_must_serve_nobody_is_withdrawn_and_wiped() -> None:
    pool = BlockPool(8, SIZE)
    left_behind(pool, 1, range(5))
    computed(pool, 2, range(10))
    computed(pool, 3, range(10))
    shared, own = set(pool.table(2)[:2]), pool.table(2)[2]
    assert shared < set(pool.table(3))
    assert pool.release(2, 1.0, keep=False) == 3
    assert pool.take_wipes() == (own,)
    assert computed(pool, 4, range(5), 1.0) == 0
    pool.release(3, 1.0)
    pool.release(4, 1.0)
    pool.check_integrity()
    assert pool.num_cached == 1, "what request 4 computed anew"
    assert pool.take_wipes() == (), "the last holder did not fail"


def test_what_expires_is_overwritten_a_few_blocks_a_round() -> None:
    pool = BlockPool(3 * EXPIRED_A_ROUND, SIZE, retention_s=10.0)
    tokens = range(2 * EXPIRED_A_ROUND * SIZE)
    assert pool.admit(1, tokens, A, 0.0) == 0
    pool.fill(1, tokens, len(tokens))
    used = set(pool.table(1))
    pool.release(1, 0.0)
    assert pool.take_wipes() == ()
    pool.expire(10.0)
    pool.admit(2, range(900, 904), A, 10.0)
    (taken,) = pool.table(2)
    first, second, third = (set(pool.take_wipes()) for _ in range(3))
    assert taken in first & used, "its own scope's expired tokens are no better there"
    assert (len(first), len(second)) == (1 + EXPIRED_A_ROUND, EXPIRED_A_ROUND - 1)
    assert (first | second, third) == (used, set())
    assert len(pool.purge(11.0).block_ids) == 0


def test_what_expires_and_is_purged_is_overwritten_once() -> None:
    pool = BlockPool(8, SIZE, retention_s=10.0)
    left_behind(pool, 1, range(8))
    pool.expire(10.0)
    assert len(pool.purge(10.0).block_ids) == 2
    assert pool.take_wipes() == ()


def test_a_fork_shares_every_block_and_takes_none() -> None:
    pool = BlockPool(8, SIZE)
    tokens = list(range(10))
    computed(pool, 1, tokens)
    assert pool.fork(1, 2, tokens)
    assert list(pool.table(2)) == list(pool.table(1))
    assert (pool.num_held, pool.num_free) == (3, 5)
    pool.release(1, 1.0)
    assert (pool.num_held, pool.num_cached) == (3, 0)
    pool.release(2, 1.0)
    assert (pool.num_held, pool.num_cached, pool.num_free) == (0, 2, 6)


def test_a_fork_needs_a_parent_that_covers_it_and_room_to_spare() -> None:
    pool = BlockPool(3, SIZE)
    tokens = list(range(10))
    computed(pool, 1, tokens)
    assert not pool.fork(1, 2, tokens, spare=1)
    assert pool.table(2) == ()
    for parent, length in ((9, 4), (1, 13)):
        with pytest.raises(ValueError, match="cannot share"):
            pool.fork(parent, 2, list(range(length)))
    assert pool.fork(1, 2, tokens)
    with pytest.raises(ValueError, match="cannot share"):
        pool.fork(1, 2, tokens)


def test_writing_to_a_shared_block_copies_it_once() -> None:
    pool = BlockPool(8, SIZE)
    tokens = list(range(10))
    computed(pool, 1, tokens)
    assert pool.fork(1, 2, tokens)
    shared = pool.table(1)[2]
    ((source, copy),) = pool.writable(1, 10, 11, 0.0) or ((-1, -1),)
    assert (source, pool.table(1)[2], pool.table(2)[2]) == (shared, copy, shared)
    assert pool.writable(2, 10, 11, 0.0) == ()
    assert list(pool.table(1))[:2] == list(pool.table(2))[:2]


def test_a_block_that_others_could_find_is_not_written_either() -> None:
    """A fork that draws its own first token computes the prompt's last one again."""
    pool = BlockPool(8, SIZE)
    tokens = list(range(8))
    computed(pool, 1, tokens)
    assert pool.fork(1, 2, tokens)
    pool.release(1, 0.0)
    found = pool.table(2)[1]
    assert pool.writable(2, 7, 8, 0.0) == ((found, pool.table(2)[1]),)
    pool.fill(2, tokens, 8)
    assert pool.num_cached == 1
    assert pool.admit(3, range(9), A, 0.0) == 8
    assert pool.table(3)[1] == found


def test_a_copy_is_found_once_the_original_is_gone() -> None:
    pool = BlockPool(4, SIZE)
    tokens = list(range(8))
    computed(pool, 1, tokens)
    assert pool.fork(1, 2, tokens)
    pool.release(1, 0.0)
    assert pool.writable(2, 7, 8, 0.0) != ()
    assert pool.admit(3, range(50, 57), A, 1.0) == 0, "it takes the original's place"
    pool.fill(2, tokens, 8)
    pool.release(3, 1.0)
    assert pool.admit(4, range(9), A, 2.0) == 8
    assert list(pool.table(4))[:2] == list(pool.table(2))


def test_without_room_for_a_copy_nothing_changes() -> None:
    pool = BlockPool(3, SIZE)
    tokens = list(range(10))
    computed(pool, 1, tokens)
    pool.fork(1, 2, tokens)
    before = list(pool.table(2))
    assert pool.writable(2, 10, 11, 0.0) is None
    assert list(pool.table(2)) == before
    pool.check_integrity()


def test_a_purge_frees_what_is_cached_and_names_all_remains() -> None:
    pool = BlockPool(8, SIZE)
    left_behind(pool, 1, range(10))
    assert (pool.num_cached, pool.num_free) == (2, 6)
    purged = pool.purge(1.0, tenant="a")
    assert (purged.freed, purged.tokens, purged.held) == (2, 8, 0)
    assert len(purged.block_ids) == 3, "the last block was never full, and holds tokens as well"
    assert pool.num_free == 8
    assert pool.purge(1.0).block_ids == ()
    assert pool.admit(2, range(10), A, 2.0) == 0


@pytest.mark.parametrize("is_held", [True, False])
@pytest.mark.behaviour(
    "a block that changes hands between tenants is overwritten first, in slots that its new "
    "owner never writes too, so a purge leaves nothing of the tenant behind",
    report="vllm #30931, #42125, #3264 as a kind: what one caller computed was in reach of another",
)
def test_a_purge_leaves_no_remains_under_a_later_owner(is_held: bool) -> None:
    pool = BlockPool(1, SIZE)
    assert pool.admit(1, range(3), A, 0.0) == 0
    assert pool.take_wipes() == ()
    pool.release(1, 0.0)
    assert pool.admit(2, [7], CacheScope(tenant="b"), 1.0) == 0
    assert pool.take_wipes() == (0,)
    assert pool.take_wipes() == ()
    if not is_held:
        pool.release(2, 1.0)
    purged = pool.purge(2.0, tenant="a")
    assert (purged.block_ids, purged.held) == ((), 0), "nothing of it is left"
    purged = pool.purge(2.0, tenant="b")
    assert (len(purged.block_ids), purged.held) == ((0, 1) if is_held else (1, 0))


def test_a_block_that_stays_in_its_scope_is_not_overwritten() -> None:
    pool = BlockPool(4, SIZE)
    for owner in range(8):
        scope = CacheScope(tenant="a", salt="s")
        assert pool.admit(owner, range(10 * owner, 10 * owner + 10), scope, 0.0) == 0
        pool.fill(owner, range(10 * owner, 10 * owner + 10), 10)
        assert pool.take_wipes() == ()
        pool.release(owner, 0.0)


def test_a_copy_into_anothers_block_is_not_wiped() -> None:
    pool = BlockPool(3, SIZE)
    pool.admit(1, range(12), CacheScope(tenant="b"), 0.0)
    pool.release(1, 0.0)
    tokens = list(range(6))
    computed(pool, 2, tokens)
    assert set(pool.take_wipes()) == set(pool.table(2))
    pool.fork(2, 3, tokens)
    assert len(pool.writable(3, 6, 7, 0.0) or ()) == 1
    assert pool.take_wipes() == ()


def test_a_purge_hits_only_what_matches_every_part() -> None:
    scopes = [
        CacheScope(tenant=tenant, scope=scope, salt=salt)
        for tenant in ("a", "b")
        for scope in ("", "k")
        for salt in ("", "s")
    ]
    for part in ("tenant", "scope", "salt"):
        pool = BlockPool(32, SIZE)
        for owner, scope in enumerate(scopes):
            pool.admit(owner, range(4), scope, 0.0)
            pool.fill(owner, range(4), 4)
            pool.release(owner, 0.0)
        first = scopes[-1]
        assert pool.purge(1.0, **{part: getattr(first, part)}).freed == 4
        for owner, scope in enumerate(scopes):
            gone = getattr(scope, part) == getattr(first, part)
            assert pool.admit(owner, range(5), scope, 2.0) == (0 if gone else 4)


def test_a_purge_by_age_spares_what_was_used_since() -> None:
    pool = BlockPool(8, SIZE)
    left_behind(pool, 1, range(4), now_s=0.0)
    left_behind(pool, 2, range(10, 14), now_s=5.0)
    computed(pool, 3, range(20, 24), now_s=0.0)
    purged = pool.purge(6.0, older_than_s=2.0)
    assert (purged.freed, purged.held) == (1, 0)
    assert pool.admit(4, range(10, 15), A, 6.0) == 4
    assert pool.admit(5, range(20, 25), A, 6.0) == 4
    assert pool.admit(6, range(5), A, 6.0) == 0


def test_purged_blocks_in_use_are_not_found_and_are_wiped_when_let_go() -> None:
    pool = BlockPool(4, SIZE)
    tokens = list(range(6))
    computed(pool, 1, tokens)
    held = list(pool.table(1))
    purged = pool.purge(1.0, tenant="a")
    assert (purged.freed, purged.block_ids, purged.held) == (0, (), 2)
    assert pool.take_wipes() == ()
    assert computed(pool, 2, range(5), 1.0) == 0
    pool.release(2, 1.0)
    tokens += [6, 7]
    pool.fill(1, tokens, 8)
    pool.release(1, 2.0)
    assert pool.num_cached == 1, "of request 2 only: request 1 publishes nothing more"
    assert sorted(pool.take_wipes()) == sorted(held)
    assert pool.take_wipes() == ()


def test_a_purged_block_given_out_in_the_same_round_is_wiped_in_it() -> None:
    pool = BlockPool(2, SIZE)
    computed(pool, 1, range(8))
    pool.purge(0.0)
    pool.release(1, 0.0)
    assert pool.admit(2, range(20, 28), A, 0.0) == 0
    assert set(pool.take_wipes()) == set(pool.table(2))


def test_a_copy_is_not_wiped_after_it_was_made() -> None:
    """Copies come first: what they overwrite needs no wipe, what they read is still there."""
    pool = BlockPool(3, SIZE)
    tokens = list(range(6))
    computed(pool, 1, tokens)
    pool.fork(1, 2, tokens)
    pool.admit(3, [7], CacheScope(tenant="b"), 0.0)
    pool.purge(0.0, tenant="b")
    pool.release(3, 0.0)
    ((_, copy),) = pool.writable(2, 6, 7, 0.0) or ((-1, -1),)
    assert pool.take_wipes() == ()
    assert copy in pool.table(2)


def test_forks_of_a_purged_request_are_purged_with_it() -> None:
    pool = BlockPool(8, SIZE)
    tokens = list(range(6))
    computed(pool, 1, tokens)
    pool.purge(0.0)
    assert pool.fork(1, 2, tokens)
    pool.release(1, 0.0)
    assert pool.take_wipes() == ()
    tokens += [6, 7]
    assert pool.writable(2, 6, 8, 0.0) == ()
    pool.fill(2, tokens, 8)
    pool.release(2, 0.0)
    assert pool.num_cached == 0
    assert len(pool.take_wipes()) == 2
