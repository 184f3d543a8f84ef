"""A slow, plain model of the block pool that also keeps what each slot of each block holds.

A slot holds scope and all tokens up to its own, for that is what a key or value depends on. So
a wrong hit, a stale slot or a write into another's block shows up as a wrong content.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from paceline_engine.kvcache.block_pool import BlockPool
from paceline_engine.request import CacheScope

Content = tuple[CacheScope, tuple[int, ...]]


@dataclass
class Owner:
    """A request.

    Attributes:
        num_computed: Leading tokens whose KV is written.
        num_filled: Leading blocks that were offered to others.
        end: Up to where this round computes; 0 if it does not.
    """

    tokens: list[int]
    scope: CacheScope
    num_computed: int
    num_filled: int
    is_cleared: bool = False
    end: int = 0

    def content(self, position: int) -> Content:
        return self.scope, tuple(self.tokens[: position + 1])


@dataclass
class PoolModel:
    """What must be true of a pool, kept beside it.

    Attributes:
        findable: Block of each (scope, tokens up to the block's end).
        unused: Blocks in `findable` that nobody holds, longest unused first.
    """

    pool: BlockPool
    retention_s: float | None
    now_s: float = 0.0
    owners: dict[int, Owner] = field(default_factory=dict)
    slots: dict[int, list[Content | None]] = field(default_factory=dict)
    findable: dict[Content, int] = field(default_factory=dict)
    unused: list[int] = field(default_factory=list)
    left_at_s: dict[int, float] = field(default_factory=dict)
    copies: list[tuple[int, int]] = field(default_factory=list)
    purged: set[int] = field(default_factory=set)
    expired: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        for block in range(self.pool.num_blocks):
            self.slots[block] = [None] * self.pool.block_size

    @property
    def held(self) -> set[int]:
        return {block for owner in self.owners for block in self.pool.table(owner)}

    @property
    def free(self) -> set[int]:
        return set(range(self.pool.num_blocks)) - self.held - set(self.unused)

    def hits(self, tokens: Sequence[int], scope: CacheScope) -> list[int]:
        """Blocks that a look-up must find."""
        size, found = self.pool.block_size, []
        for end in range(size, len(tokens), size):
            block = self.findable.get((scope, tuple(tokens[:end])))
            if block is None:
                break
            found.append(block)
        return found

    def took(self, blocks: Sequence[int], free: set[int]) -> None:
        """Checks which blocks were given out: free ones, then the longest unused."""
        for block in blocks:
            if free:
                assert block in free
                free.discard(block)
            else:
                assert block == self.unused.pop(0), "not the longest unused block"
                self.hide([block])

    def hide(self, blocks: Iterable[int]) -> None:
        gone = set(blocks)
        self.findable = {c: block for c, block in self.findable.items() if block not in gone}
        self.unused = [block for block in self.unused if block not in gone]

    def expire(self) -> None:
        if self.retention_s is not None:
            limit = self.now_s - self.retention_s
            gone = [block for block in self.unused if self.left_at_s[block] <= limit]
            self.hide(gone)
            self.expired.update(gone)

    def left(self, table: Sequence[int]) -> None:
        """Notes that a table is gone; its tail is given up before its head."""
        findable, held = set(self.findable.values()), self.held
        for block in reversed(table):
            if block not in held:
                self.left_at_s[block] = self.now_s
                if block in findable:
                    self.unused.append(block)

    def finish_round(self) -> None:
        """What a runner does with a step, and what the scheduler does with its results."""
        wipes = self.pool.take_wipes()
        for source, destination in self.copies:
            self.slots[destination] = list(self.slots[source])
            (self.purged.add if source in self.purged else self.purged.discard)(destination)
        self.copies.clear()
        self.wipe(wipes)
        self.check_purged_are_wiped()
        assert not any(self.scopes_in(block) for block in self.expired - self.held)
        self.expired.clear()
        self.check_nobody_holds_anothers()
        for owner_id in self.owners:
            self.compute(owner_id)
        for owner_id, owner in self.owners.items():
            self.check_reads(owner_id, owner.num_computed)
            self.pool.fill(owner_id, owner.tokens, owner.num_computed)
            self.publish(owner_id)

    def compute(self, owner_id: int) -> None:
        owner = self.owners[owner_id]
        for position in range(owner.num_computed, owner.end):
            slots = self.slots[self.block(owner_id, position)]
            slots[self.offset(position)] = owner.content(position)
        owner.num_computed = max(owner.num_computed, owner.end)
        owner.end = 0

    def publish(self, owner_id: int) -> None:
        owner, size = self.owners[owner_id], self.pool.block_size
        full = owner.num_computed // size
        for index in range(owner.num_filled, 0 if owner.is_cleared else full):
            last = (index + 1) * size - 1
            self.findable.setdefault(owner.content(last), self.block(owner_id, last))
        owner.num_filled = max(owner.num_filled, full)

    def block(self, owner_id: int, position: int) -> int:
        return self.pool.table(owner_id)[position // self.pool.block_size]

    def offset(self, position: int) -> int:
        return position % self.pool.block_size

    def check_reads(self, owner_id: int, end: int) -> None:
        """All that the owner's attention reads is its own."""
        owner = self.owners[owner_id]
        for position in range(end):
            got = self.slots[self.block(owner_id, position)][self.offset(position)]
            assert got == owner.content(position)

    def wipe(self, blocks: Iterable[int]) -> None:
        for block in blocks:
            self.slots[block] = [None] * self.pool.block_size
            self.purged.discard(block)

    def scopes_in(self, block: int) -> set[CacheScope]:
        """Whose content is in the block, whatever became of its writer."""
        return {content[0] for content in self.slots[block] if content is not None}

    def check_nobody_holds_anothers(self) -> None:
        """A table's blocks hold nothing of another scope, in slots not yet written either."""
        for owner_id, owner in self.owners.items():
            for block in self.pool.table(owner_id):
                assert self.scopes_in(block) <= {owner.scope}

    def check_purged_are_wiped(self) -> None:
        cleared = {
            block
            for owner_id, owner in self.owners.items()
            if owner.is_cleared
            for block in self.pool.table(owner_id)
        }
        assert self.purged <= cleared, "a purged block was let go and not overwritten"
