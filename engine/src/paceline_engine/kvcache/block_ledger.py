"""Every block's role: free, held or cached; whose KV it holds, and what must be overwritten."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from paceline_engine.kvcache.integrity import Books
from paceline_engine.kvcache.lru import LruBlocks
from paceline_engine.kvcache.prefix_index import PrefixIndex
from paceline_engine.kvcache.purge import Selection
from paceline_engine.kvcache.writers import Writers
from paceline_engine.request import CacheScope

# Bounds what a step waits for where thousands of blocks expire at once.
EXPIRED_A_ROUND: Final = 32


class BlockLedger:
    """Blocks 0 to num_blocks - 1 and how many tables hold each.

    Args:
        num_blocks: Blocks there are.

    Attributes:
        gains: Times that a findable block became held, or a held one findable.
        changes: Those, and times that a findable block was let go or became unfindable: while
            it stays, a look-up finds the same blocks, and the same of them held.
    """

    def __init__(self, num_blocks: int) -> None:
        self.gains = 0
        self.changes = 0
        self._free = list(range(num_blocks - 1, -1, -1))
        self._cached = LruBlocks()
        self._index = PrefixIndex(num_blocks)
        self._references = [0] * num_blocks
        self._num_held = 0
        self._writers = Writers(num_blocks)
        self._left_at_s = [0.0] * num_blocks  # when its last holder let go
        self._unwiped: set[int] = set()  # to overwrite before anything is computed
        self._expired: dict[int, None] = {}  # to overwrite some time, or before they are taken

    @property
    def num_free(self) -> int:
        """Blocks that hold nothing of use."""
        return len(self._free)

    @property
    def num_cached(self) -> int:
        """Findable blocks that nobody holds."""
        return len(self._cached)

    @property
    def num_held(self) -> int:
        """Blocks that somebody holds."""
        return self._num_held

    @property
    def num_available(self) -> int:
        """Blocks that `take` can give."""
        return len(self._free) + len(self._cached)

    def is_held(self, block: int) -> bool:
        """Whether somebody holds the block."""
        return self._references[block] > 0

    def num_holders(self, block: int) -> int:
        """Tables that hold the block."""
        return self._references[block]

    def is_shared(self, block: int) -> bool:
        """Whether others than one holder read the block, or could find it."""
        return self._references[block] > 1 or self._index.has(block)

    def find(self, key: bytes) -> int | None:
        """The filled block with this key."""
        return self._index.find(key)

    def publish(self, block: int, key: bytes) -> None:
        """Makes a held, filled block findable; of several with one key the first stays so."""
        if self._index.publish(block, key):
            self._gain()

    def take(self, count: int, scope: CacheScope) -> list[int]:
        """Gives out blocks that nobody holds: free ones, then the longest unused cached ones.

        Those with another's KV join the blocks to overwrite. Writing zeros costs a thousandth
        or so of computing what will fill them, and nothing where all are of one scope.

        Args:
            count: At most `num_available`.
            scope: Who will write to them.
        """
        free, references = self._free, self._references
        taken = [free.pop() if free else self._evict() for _ in range(count)]
        for block in taken:
            references[block] = 1
        self._num_held += count
        if foreign := self._writers.assign(taken, scope):
            self._unwiped.update(foreign)
        if self._expired:
            self._hurry(taken)
        return taken

    def share(self, block_ids: Iterable[int]) -> None:
        """One more table holds each of these held or cached blocks."""
        for block in block_ids:
            if not self._references[block]:
                self._cached.remove(block)
                self._num_held += 1
                self._gain()
            self._references[block] += 1

    def drop(self, block: int, now_s: float, *, wipe: bool) -> None:
        """One table less holds the block.

        Args:
            block: A held one.
            now_s: Time.
            wipe: Whether it must be overwritten once nobody holds it.
        """
        self._references[block] -= 1
        if self._references[block]:
            return
        self._num_held -= 1
        self._left_at_s[block] = now_s
        if self._index.has(block):
            self._cached.add(block, now_s)
            self.changes += 1
            return
        self._free.append(block)
        if wipe:
            self._unwiped.add(block)

    def note_copy(self, source: int, copy: int) -> None:
        """Says that `copy`, just taken, will be overwritten whole with `source`."""
        if source in self._unwiped:
            self._unwiped.add(copy)  # taken in this round: it holds nothing of its owner yet
        else:
            self._unwiped.discard(copy)

    def expire(self, limit_s: float) -> None:
        """Frees cached blocks unused since `limit_s` or before, to be overwritten by and by."""
        for block in self._cached.pop_unused_since(limit_s):
            self._withdraw(block)
            self._free.append(block)
            self._expired[block] = None

    def withdraw(self, block_ids: Iterable[int]) -> None:
        """Makes held blocks unfindable."""
        for block in block_ids:
            self._withdraw(block)

    def forget(self, selection: Selection, now_s: float) -> tuple[list[int], int]:
        """Frees cached blocks of a selection; takes time in proportion to its scopes' blocks.

        Returns:
            Blocks to overwrite now, free ones with remains of the selection among them; how
            many of them were cached.
        """
        stale = [
            block
            for scope in self._writers.scopes()
            if selection.covers(scope)
            for block in self._writers.blocks(scope)
            if not self._references[block] and selection.reaches(now_s - self._left_at_s[block])
        ]
        freed = [block for block in stale if block in self._cached]
        for block in freed:
            self._cached.remove(block)
            self._withdraw(block)
            self._free.append(block)
        self._writers.blank(stale)
        self._unwiped.difference_update(stale)
        for block in stale:
            self._expired.pop(block, None)
        return stale, len(freed)

    def take_wipes(self) -> tuple[int, ...]:
        """Blocks to overwrite before anything is computed; each is named once."""
        for _ in range(min(EXPIRED_A_ROUND, len(self._expired))):
            self._unwiped.add(self._expired.popitem()[0])
        wipes = tuple(self._unwiped)
        self._unwiped.clear()
        self._writers.blank(block for block in wipes if not self._references[block])
        return wipes

    def books(self, tables: Mapping[int, Sequence[int]]) -> Books:
        """All that must agree, with the tables of who holds blocks."""
        return Books(
            free=self._free,
            cached=self._cached,
            tables=tables,
            references=self._references,
            num_held=self._num_held,
            index=self._index,
        )

    def _evict(self) -> int:
        block = self._cached.pop_oldest()
        self._withdraw(block)
        return block

    def _hurry(self, taken: Iterable[int]) -> None:
        due = self._expired.keys() & taken
        self._unwiped.update(due)
        for block in due:
            del self._expired[block]

    def _withdraw(self, block: int) -> None:
        self._index.withdraw(block)
        self.changes += 1

    def _gain(self) -> None:
        self.gains += 1
        self.changes += 1
