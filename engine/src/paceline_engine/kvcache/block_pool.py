"""Paged KV accounting: a free list and one block table per owner.

The scheduler decides who gets blocks; the runner's KV tensors are indexed by the ids. Every
block is free, held by a table or cached (kept for reuse, held by nobody), and the three
counts always add up to the whole pool.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence


class KvIntegrityError(RuntimeError):
    """Blocks were lost or given out twice: a defect of the engine, never of a request."""


class BlockPool:
    """Blocks of `block_size` tokens each, given out to owners (request ids).

    Args:
        num_blocks: Blocks in the pool, ids 0 to num_blocks - 1.
        block_size: Tokens in one block.
    """

    def __init__(self, num_blocks: int, block_size: int) -> None:
        if num_blocks < 1 or block_size < 1:
            raise ValueError(f"a pool of {num_blocks} blocks of {block_size} tokens holds nothing")
        self.num_blocks = num_blocks
        self.block_size = block_size
        self._free = list(range(num_blocks - 1, -1, -1))
        self._tables: dict[int, list[int]] = {}
        self._num_held = 0

    @property
    def num_free(self) -> int:
        """Blocks that can be given out now."""
        return len(self._free)

    @property
    def num_held(self) -> int:
        """Blocks in at least one table."""
        return self._num_held

    @property
    def num_cached(self) -> int:
        """Blocks kept for reuse that no table holds; none without a prefix cache."""
        return 0

    def blocks_for(self, num_tokens: int) -> int:
        """Blocks that `num_tokens` tokens occupy."""
        return -(-num_tokens // self.block_size)

    def table(self, owner: int) -> Sequence[int]:
        """The owner's block ids in token order; grows in place, empty if unknown."""
        return self._tables.get(owner, ())

    def grow(self, owner: int, num_tokens: int) -> bool:
        """Lets the owner's table cover `num_tokens` tokens; all or nothing.

        Returns:
            Whether it does now; False leaves everything as it was.
        """
        table = self._tables.get(owner)
        missing = self.blocks_for(num_tokens) - (len(table) if table else 0)
        if missing <= 0:
            return True
        if missing > len(self._free):
            return False
        if table is None:
            table = self._tables[owner] = []
        table.extend(self._free.pop() for _ in range(missing))
        self._num_held += missing
        return True

    def release(self, owner: int) -> int:
        """Takes all blocks of the owner back; returns how many, 0 if unknown."""
        table = self._tables.pop(owner, [])
        self._free.extend(reversed(table))
        self._num_held -= len(table)
        return len(table)

    def check_integrity(self) -> None:
        """Counts every block.

        Raises:
            KvIntegrityError: A block is missing, doubled or unknown, or the counts disagree.
        """
        seen = Counter(self._free)
        for table in self._tables.values():
            seen.update(table)
        wrong = [block for block in range(self.num_blocks) if seen[block] != 1]
        if wrong or len(seen) != self.num_blocks:
            raise KvIntegrityError(f"blocks lost or given out twice: {wrong or sorted(seen)}")
        total = self.num_free + self.num_held + self.num_cached
        if total != self.num_blocks:
            raise KvIntegrityError(f"free + held + cached is {total}, not {self.num_blocks}")

    def check_empty(self) -> None:
        """Checks that nobody holds a block.

        Raises:
            KvIntegrityError: Somebody does.
        """
        if self._tables:
            raise KvIntegrityError(f"blocks still held by requests {sorted(self._tables)}")
