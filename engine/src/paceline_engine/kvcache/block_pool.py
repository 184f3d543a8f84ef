"""Paged KV accounting: who holds which block, what is kept for reuse, what is free.

The scheduler decides who gets blocks; the runner's KV tensors are indexed by the ids. Every
block is free, held by at least one table or cached (filled, findable, held by nobody), and
the three counts always add up to the whole pool. Nothing here costs time in proportion to
the pool but a `purge` of everything and the checks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from paceline_engine.kvcache.block_ledger import BlockLedger
from paceline_engine.kvcache.block_table import BlockTable
from paceline_engine.kvcache.idle_audit import IdleAudit
from paceline_engine.kvcache.integrity import Books, KvIntegrityError
from paceline_engine.kvcache.lookup import Lookup, LookupMemory
from paceline_engine.kvcache.purge import Purged, Selection
from paceline_engine.request import CacheScope

__all__ = ["BlockPool", "KvIntegrityError", "Purged"]


class BlockPool:
    """Blocks of `block_size` tokens each, given out to owners (request ids).

    Times are seconds of one clock that never runs backwards.

    Args:
        num_blocks: Blocks in the pool, ids 0 to num_blocks - 1.
        block_size: Tokens in one block.
        prefix_caching: Whether filled blocks are kept for prompts that begin alike.
        retention_s: A cached block unused for so long is dropped; None keeps it until its
            place is needed.
        revision: Digest of the weights; part of every key.

    Attributes:
        queries_tokens: Tokens looked up by requests when they were first admitted.
        hits_tokens: Of those, tokens found.
    """

    def __init__(
        self,
        num_blocks: int,
        block_size: int,
        *,
        prefix_caching: bool = True,
        retention_s: float | None = None,
        revision: str = "",
    ) -> None:
        if num_blocks < 1 or block_size < 1:
            raise ValueError(f"a pool of {num_blocks} blocks of {block_size} tokens holds nothing")
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.queries_tokens = 0
        self.hits_tokens = 0
        self._retention_s = retention_s
        self._lookups = LookupMemory(revision, block_size) if prefix_caching else None
        self._ledger = BlockLedger(num_blocks)
        self._tables: dict[int, BlockTable] = {}

    @property
    def num_free(self) -> int:
        """Blocks that hold nothing of use."""
        return self._ledger.num_free

    @property
    def num_cached(self) -> int:
        """Blocks kept for reuse that no table holds."""
        return self._ledger.num_cached

    @property
    def num_held(self) -> int:
        """Blocks in at least one table; a shared one counts once."""
        return self._ledger.num_held

    @property
    def num_available(self) -> int:
        """Blocks that can be given out now: free ones, then cached ones."""
        return self._ledger.num_available

    def blocks_for(self, num_tokens: int) -> int:
        """Blocks that `num_tokens` tokens occupy."""
        return -(-num_tokens // self.block_size)

    def table(self, owner: int) -> Sequence[int]:
        """The owner's block ids in token order; grows in place, empty if unknown."""
        table = self._tables.get(owner)
        return table.block_ids if table else ()

    def admit(
        self,
        owner: int,
        token_ids: Sequence[int],
        scope: CacheScope,
        now_s: float,
        *,
        spare: int = 0,
        read_cache: bool = True,
        counts: bool = True,
    ) -> int | None:
        """Gives a new owner blocks for all of `token_ids`, cached ones where they match.

        Looking up, pinning and counting are one step, so a hit cannot go stale. The last
        token is never a hit: the model must run at least once to draw the next one.

        Args:
            owner: Holds nothing yet.
            token_ids: Non-empty; may grow later, must not change.
            scope: With whom its blocks may be shared.
            now_s: Time.
            spare: Blocks that must still be available afterwards.
            read_cache: Whether hits are wanted; what it computes can be found in any case.
            counts: Whether the look-up counts; one after a preemption finds its own work.

        Returns:
            Leading tokens that need not be computed, a multiple of the block size; None if
            there is no room, and then nothing has changed.
        """
        if owner in self._tables:
            raise ValueError(f"request {owner} holds blocks already")
        self.expire(now_s)
        lookup = self._lookups.take(owner, token_ids, scope) if self._lookups else None
        hits = self._hits(lookup if read_cache else None, len(token_ids), spare)
        if hits is None:
            self._keep(owner, lookup)
            return None
        self._ledger.share(hits)
        fresh = self._ledger.take(self.blocks_for(len(token_ids)) - len(hits), scope)
        chain = lookup.chain if lookup else None
        self._tables[owner] = BlockTable(scope, chain, hits + fresh, num_filled=len(hits))
        if lookup and read_cache and counts:
            self.queries_tokens += len(token_ids)
            self.hits_tokens += len(hits) * self.block_size
        return len(hits) * self.block_size

    def missing(
        self,
        owner: int,
        token_ids: Sequence[int],
        scope: CacheScope,
        *,
        spare: int = 0,
        read_cache: bool = True,
        without: Iterable[int] = (),
    ) -> int:
        """Blocks that must become available before `admit` gives these tokens room.

        Cheap while nothing changes in what the prompt finds; else a look-up.

        Args:
            owner: As for `admit`, like the next ones.
            token_ids: Passed as the same object again, nothing is computed twice.
            scope: With whom its blocks may be shared.
            spare: Blocks that must still be available afterwards.
            read_cache: Whether hits are wanted.
            without: Owners that would be released before; what only they hold is available
                then, and the prompt's hits among it must be taken from there.

        Returns:
            0 if it would get in.
        """
        leaving = self._only_held_by(without)
        num_held = 0
        if self._lookups and read_cache:
            lookup = self._lookups.take(owner, token_ids, scope)
            held = lookup.held_now(self._ledger, self.block_size)
            num_held = len(held) - len(leaving.intersection(held))
            self._lookups.keep(owner, lookup)
        needed = self.blocks_for(len(token_ids)) - num_held + spare
        return max(0, needed - self.num_available - len(leaving))

    def freed_by(self, owners: Iterable[int]) -> int:
        """Blocks that would become available were these owners released: nobody else has them."""
        return len(self._only_held_by(owners))

    def grow(self, owner: int, num_tokens: int) -> bool:
        """Lets the owner's table cover `num_tokens` tokens; all or nothing.

        Returns:
            Whether it does now; False leaves everything as it was.

        Raises:
            KeyError: The owner was not admitted.
        """
        table = self._tables[owner]
        missing = -(-num_tokens // self.block_size) - len(table.block_ids)
        if missing <= 0:
            return True
        if missing > self.num_available:
            return False
        table.block_ids.extend(self._ledger.take(missing, table.scope))
        return True

    def fill(self, owner: int, token_ids: Sequence[int], num_computed: int) -> None:
        """Makes blocks findable that have become full; to be called after a step's results.

        Args:
            owner: Unknown ones are ignored.
            token_ids: All tokens known of it.
            num_computed: Leading tokens whose KV is in the blocks.
        """
        table = self._tables.get(owner)
        if table is None or (table.num_filled + 1) * self.block_size > num_computed:
            return
        full = num_computed // self.block_size
        if table.chain is not None and not table.is_cleared:
            for index in range(table.num_filled, full):
                key = table.chain.key(index, token_ids)
                self._ledger.publish(table.block_ids[index], key)
        table.num_filled = full

    def fork(
        self,
        parent: int,
        child: int,
        token_ids: Sequence[int],
        *,
        spare: int = 0,
    ) -> bool:
        """Lets a new owner share the parent's blocks of `token_ids`, a partial last one too.

        Takes no block; whoever writes to a shared one first asks `writable`.

        Args:
            parent: Covers `token_ids`, all computed.
            child: Holds nothing yet.
            token_ids: Leading tokens of the parent, from which the child goes its own way.
            spare: Blocks that must be available.

        Returns:
            Whether it was done; False if there are fewer spare blocks.

        Raises:
            ValueError: The parent does not cover the tokens, or the child holds blocks.
        """
        table, count = self._tables.get(parent), self.blocks_for(len(token_ids))
        if table is None or len(table.block_ids) < count or child in self._tables:
            raise ValueError(f"request {child} cannot share {count} blocks of request {parent}")
        if spare > self.num_available:
            return False
        shared = table.block_ids[:count]
        self._ledger.share(shared)
        self._tables[child] = table.fork(shared, len(token_ids) // self.block_size)
        return True

    def writable(
        self, owner: int, start: int, end: int, now_s: float
    ) -> tuple[tuple[int, int], ...] | None:
        """Gives the owner blocks of its own for positions [start, end), which it will write.

        Blocks there that others hold, or could find, are replaced in its table by fresh ones.

        Returns:
            (source, destination) blocks to copy, in order, before anything is computed; None
            if there is no room, and then nothing has changed.
        """
        table = self._tables[owner]
        covered = range(start // self.block_size, self.blocks_for(end))
        shared = [index for index in covered if self._ledger.is_shared(table.block_ids[index])]
        if not shared:
            return ()
        if len(shared) > self.num_available:
            return None
        table.num_filled = min(table.num_filled, shared[0])
        return tuple(self._replace(table, index, now_s) for index in shared)

    def release(self, owner: int, now_s: float, *, keep: bool = True) -> int:
        """Lets go of all blocks of the owner; returns how many it had, 0 if unknown.

        Findable ones that nobody else holds are kept, a sequence's tail to be given up
        before its head; the others are free.

        Args:
            owner: Whose.
            now_s: Time.
            keep: False where what it computed must serve nobody: its blocks become
                unfindable, shared ones too, and `take_wipes` names those that are let go.
        """
        table = self._tables.pop(owner, None)
        if table is None:
            return 0
        if not keep:
            self._ledger.withdraw(table.block_ids)
        for block in reversed(table.block_ids):
            self._ledger.drop(block, now_s, wipe=table.is_cleared or not keep)
        return len(table.block_ids)

    def expire(self, now_s: float) -> None:
        """Drops cached blocks that were unused for the retention time; `take_wipes` names them."""
        if self._retention_s is not None:
            self._ledger.expire(now_s - self._retention_s)

    def purge(
        self,
        now_s: float,
        *,
        tenant: str | None = None,
        scope: str | None = None,
        salt: str | None = None,
        older_than_s: float | None = None,
    ) -> Purged:
        """Drops what is cached for a tenant, scope or salt; None matches all.

        To be called between two steps. Blocks in use stay with their owners, who publish
        nothing more; `take_wipes` names them once they are let go. They have age 0.

        Returns:
            What was done; the caller overwrites `block_ids`.
        """
        selection = Selection(tenant=tenant, scope=scope, salt=salt, older_than_s=older_than_s)
        held = self._clear_held(selection)
        stale, freed = self._ledger.forget(selection, now_s)
        return Purged(
            block_ids=tuple(stale), freed=freed, tokens=freed * self.block_size, held=held
        )

    def take_wipes(self) -> tuple[int, ...]:
        """Blocks to overwrite, after copying and before anything is computed.

        They were in use when they were purged and have been let go since, or hold what
        another scope than their new owner's wrote, or expired, of which each round names a
        few: to be called once at the end of every scheduling round, and when idle.
        """
        return self._ledger.take_wipes()

    def check_integrity(self) -> None:
        """Counts every block.

        Raises:
            KvIntegrityError: A block is missing, doubled, unknown or in two roles, or the
                counts disagree.
        """
        self._books().check()

    def audit(self) -> IdleAudit:
        """Begins to count the blocks of an idle pool, to be gone on with by `audit_more`."""
        return IdleAudit(self.num_blocks)

    def audit_more(self, audit: IdleAudit) -> bool:
        """Looks at some more blocks; returns whether that was the last of them.

        Args:
            audit: Begun since anything was last admitted.

        Raises:
            KvIntegrityError: As for `check_integrity` and `check_empty`.
        """
        return audit.advance(self._books())

    def check_empty(self) -> None:
        """Checks that nobody holds a block.

        Raises:
            KvIntegrityError: Somebody does.
        """
        if self._tables:
            raise KvIntegrityError(f"blocks still held by requests {sorted(self._tables)}")

    def _books(self) -> Books:
        return self._ledger.books({owner: each.block_ids for owner, each in self._tables.items()})

    def _hits(self, lookup: Lookup | None, num_tokens: int, spare: int) -> list[int] | None:
        """Cached blocks that `num_tokens` tokens begin with; None if the rest has no room."""
        lacking = self.blocks_for(num_tokens) + spare - self.num_available
        if lookup is None:
            return None if lacking > 0 else []
        if lacking > lookup.held_at_most(self._ledger):
            return None
        hits = lookup.find(self._ledger, self.block_size)
        return None if lacking > lookup.held_at_most(self._ledger) else hits

    def _keep(self, owner: int, lookup: Lookup | None) -> None:
        if self._lookups and lookup:
            self._lookups.keep(owner, lookup)

    def _only_held_by(self, owners: Iterable[int]) -> set[int]:
        held = Counter(block for owner in set(owners) for block in self.table(owner))
        holders = self._ledger.num_holders
        return {block for block, count in held.items() if count == holders(block)}

    def _replace(self, table: BlockTable, index: int, now_s: float) -> tuple[int, int]:
        source = table.block_ids[index]
        (copy,) = self._ledger.take(1, table.scope)
        self._ledger.note_copy(source, copy)
        table.block_ids[index] = copy
        self._ledger.drop(source, now_s, wipe=table.is_cleared)
        return source, copy

    def _clear_held(self, selection: Selection) -> int:
        held: set[int] = set()
        for table in self._tables.values():
            if selection.matches(table.scope, age_s=0.0):
                table.is_cleared = True
                held.update(table.block_ids)
        self._ledger.withdraw(held)
        return len(held)
