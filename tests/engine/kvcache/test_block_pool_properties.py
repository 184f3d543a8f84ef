"""Whatever owners do, every block has one role, and nobody reads what is not theirs."""

from __future__ import annotations

import pytest
from hypothesis import event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from paceline_engine.kvcache.block_pool import BlockPool, KvIntegrityError
from paceline_engine.kvcache.purge import Selection
from paceline_engine.request import CacheScope
from tests.engine.kvcache.pool_model import Owner, PoolModel

SCOPES = [
    *([CacheScope(tenant="a")] * 4),
    CacheScope(tenant="b"),
    CacheScope(tenant="a", scope="key"),
    CacheScope(tenant="a", salt="key"),
]
# Prompts begin alike as often as not, or there would be nothing to hit.
TEXTS = [[0] * 10, [0, 0, 0, 0, 1, 1, 1, 1, 1, 1]]
TOKENS = st.integers(0, 1)
some_owner = precondition(lambda self: self.model.owners)
may_purge = precondition(lambda self: not self.in_round and self.rounds >= 5)
admissions = {
    "scope": st.sampled_from(SCOPES),
    "text": st.sampled_from(TEXTS),
    "length": st.integers(1, 10),
}


class PoolMachine(RuleBasedStateMachine):
    """Requests that come, compute, fork, are preempted and purged, in rounds as of a scheduler."""

    @initialize(
        num_blocks=st.integers(4, 14),
        block_size=st.integers(1, 3),
        retention_s=st.none() | st.integers(1, 6),
    )
    def start(self, num_blocks: int, block_size: int, retention_s: int | None) -> None:
        self.pool = BlockPool(num_blocks, block_size, retention_s=retention_s)
        self.model = PoolModel(self.pool, retention_s)
        self.in_round = False
        self.rounds = 0
        self.next_id = 0

    @rule(
        **admissions,
        spare=st.sampled_from([0, 0, 0, 1, 2]),
        read_cache=st.sampled_from([True, True, True, False]),
    )
    def arrive(
        self, scope: CacheScope, text: list[int], length: int, spare: int, read_cache: bool
    ) -> None:
        self.admit(scope, text[:length], spare, read_cache)

    def admit(self, scope: CacheScope, tokens: list[int], spare: int, read_cache: bool) -> bool:
        """A new request; whether there was room."""
        self.model.expire()
        hits = self.model.hits(tokens, scope) if read_cache else []
        free, held = self.model.free, self.model.held
        needed = self.pool.blocks_for(len(tokens)) - len(hits)
        available = len(free) + len(set(self.model.unused) - set(hits))
        counted = self.pool.queries_tokens, self.pool.hits_tokens
        got = self.pool.admit(
            self.next_id, tokens, scope, self.model.now_s, spare=spare, read_cache=read_cache
        )
        if needed + spare > available:
            assert got is None
            assert (self.pool.queries_tokens, self.pool.hits_tokens) == counted
            assert (self.model.free, self.model.held) == (free, held)
            return False
        self.in_round = True
        assert got == len(hits) * self.pool.block_size < len(tokens)
        looked_up = len(tokens) if read_cache else 0
        assert self.pool.queries_tokens == counted[0] + looked_up
        assert self.pool.hits_tokens == counted[1] + got
        table = list(self.pool.table(self.next_id))
        assert table[: len(hits)] == hits
        self.model.unused = [block for block in self.model.unused if block not in hits]
        self.model.took(table[len(hits) :], free)
        self.model.owners[self.next_id] = Owner(tokens, scope, got, len(hits))
        self.model.check_reads(self.next_id, got)
        event("hit" if got else "no hit")
        self.next_id += 1
        return True

    @rule(**admissions)
    def serve(self, scope: CacheScope, text: list[int], length: int) -> None:
        """A request from its arrival to its end."""
        if self.admit(scope, text[:length], spare=0, read_cache=True):
            owner_id = self.next_id - 1
            self.advance(owner_id, length, token=0)
            self.finish_round()
            self.leave(owner_id)

    @some_owner
    @rule(data=st.data(), count=st.integers(1, 6), token=TOKENS)
    def compute(self, data: st.DataObject, count: int, token: int) -> None:
        """Some owner's next tokens; a drawn one where it knows no other."""
        owner_id = data.draw(st.sampled_from(sorted(self.model.owners)))
        self.advance(owner_id, count, token)

    @some_owner
    @rule(token=TOKENS)
    def step(self, token: int) -> None:
        """A whole round in which everybody gets on."""
        for owner_id in sorted(self.model.owners):
            self.advance(owner_id, 12, token)
        self.finish_round()

    def advance(self, owner_id: int, count: int, token: int) -> None:
        owner = self.model.owners[owner_id]
        if owner.end:
            return
        if owner.num_computed == len(owner.tokens):
            owner.tokens.append(token)
        end = min(len(owner.tokens), owner.num_computed + count)
        self.in_round = True
        if self.grow(owner_id, owner, end) and self.make_writable(owner_id, owner, end):
            owner.end = end

    def grow(self, owner_id: int, owner: Owner, end: int) -> bool:
        before, free = list(self.pool.table(owner_id)), self.model.free
        available = self.pool.num_available
        grown = self.pool.grow(owner_id, end)
        table = list(self.pool.table(owner_id))
        missing = max(0, self.pool.blocks_for(end) - len(before))
        assert grown is (missing <= available)
        assert table[: len(before)] == before
        assert len(table) == len(before) + (missing if grown else 0)
        self.model.took(table[len(before) :], free)
        return grown

    def make_writable(self, owner_id: int, owner: Owner, end: int) -> bool:
        before, free = list(self.pool.table(owner_id)), self.model.free
        available = self.pool.num_available
        copies = self.pool.writable(owner_id, owner.num_computed, end, self.model.now_s)
        table = list(self.pool.table(owner_id))
        if copies is None:
            assert table == before
            return False
        assert len(copies) <= available
        replaced = [pair for pair in zip(before, table, strict=True) if pair[0] != pair[1]]
        assert list(copies) == replaced
        self.model.took([copy for _, copy in copies], free)
        for source, _ in copies:
            self.model.left([source])
        self.model.copies.extend(copies)
        if copies:
            owner.num_filled = min(owner.num_filled, before.index(copies[0][0]))
        others = {b for o in self.model.owners if o != owner_id for b in self.pool.table(o)}
        written = set(table[owner.num_computed // self.pool.block_size : self.pool.blocks_for(end)])
        assert not written & (others | set(self.model.findable.values()))
        return True

    @some_owner
    @rule(data=st.data(), spare=st.integers(0, 3))
    def fork(self, data: st.DataObject, spare: int) -> None:
        parent_id = data.draw(st.sampled_from(sorted(self.model.owners)))
        parent = self.model.owners[parent_id]
        if not parent.num_computed:
            return
        shared = data.draw(st.integers(1, parent.num_computed))
        computed = data.draw(st.integers(max(0, shared - 1), shared))
        available = self.pool.num_available
        tokens = parent.tokens[:shared]
        done = self.pool.fork(parent_id, self.next_id, tokens, spare=spare)
        assert done is (spare <= available)
        assert self.pool.num_available == available
        if done:
            self.in_round = True
            assert (
                self.pool.table(self.next_id)
                == self.pool.table(parent_id)[: self.pool.blocks_for(shared)]
            )
            filled = min(parent.num_filled, shared // self.pool.block_size)
            child = Owner(tokens, parent.scope, computed, filled, parent.is_cleared)
            self.model.owners[self.next_id] = child
            self.next_id += 1

    @some_owner
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        self.leave(data.draw(st.sampled_from(sorted(self.model.owners))))

    def leave(self, owner_id: int) -> None:
        table = list(self.pool.table(owner_id))
        del self.model.owners[owner_id]
        assert self.pool.release(owner_id, self.model.now_s) == len(table)
        assert self.pool.release(owner_id, self.model.now_s) == 0
        self.model.left(table)

    @rule()
    def finish_round(self) -> None:
        self.model.finish_round()
        self.in_round = False
        self.rounds += 1

    @rule(seconds=st.integers(1, 4))
    def wait(self, seconds: int) -> None:
        self.model.now_s += seconds
        self.pool.expire(self.model.now_s)
        self.model.expire()

    @may_purge
    @rule(
        tenant=st.sampled_from([None, "a", "b"]),
        scope=st.sampled_from([None, "", "key"]),
        salt=st.sampled_from([None, "", "key"]),
        older_than_s=st.sampled_from([None, None, 0, 2]),
    )
    def purge(
        self, tenant: str | None, scope: str | None, salt: str | None, older_than_s: float | None
    ) -> None:
        self.rounds = 0
        chosen = Selection(tenant=tenant, scope=scope, salt=salt, older_than_s=older_than_s)
        model, held = self.model, self.model.held
        in_use: set[int] = set()
        for owner_id, owner in model.owners.items():
            if chosen.matches(owner.scope, 0):
                owner.is_cleared = True
                in_use.update(self.pool.table(owner_id))
        remains = {block for block in range(self.pool.num_blocks) if self.is_meant(block, chosen)}
        cached = remains & set(model.unused)
        purged = self.pool.purge(
            model.now_s, tenant=tenant, scope=scope, salt=salt, older_than_s=older_than_s
        )
        named = set(purged.block_ids)
        assert remains <= named, "a block keeps content of the selection"
        assert len(named) == len(purged.block_ids)
        assert not named & held
        assert purged.freed == len(cached) == len(named & set(model.unused))
        assert purged.tokens == purged.freed * self.pool.block_size
        assert purged.held == len(in_use)
        for block in named:
            assert all(chosen.covers(scope) for scope in model.scopes_in(block))
        model.wipe(named)
        model.hide(named | in_use)
        model.purged |= in_use

    def is_meant(self, block: int, chosen: Selection) -> bool:
        """Whether nobody holds the block, and something of the selection is in it."""
        if block in self.model.held or block not in self.model.left_at_s:
            return False
        age_s = self.model.now_s - self.model.left_at_s[block]
        return any(chosen.matches(scope, age_s) for scope in self.model.scopes_in(block))

    @invariant()
    def every_block_has_one_role(self) -> None:
        self.pool.check_integrity()
        model = self.model
        assert self.pool.num_held == len(model.held)
        assert self.pool.num_cached == len(model.unused)
        assert self.pool.num_free == len(model.free)
        total = self.pool.num_free + self.pool.num_cached + self.pool.num_held
        assert total == self.pool.num_blocks

    @invariant()
    def empty_means_nobody_holds(self) -> None:
        if self.model.owners:
            with pytest.raises(KvIntegrityError, match="still held"):
                self.pool.check_empty()
        else:
            self.pool.check_empty()


TestPool = PoolMachine.TestCase
TestPool.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
