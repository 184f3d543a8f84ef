"""The proof that no block is lost, taken in steps so short that nobody waits for them."""

from __future__ import annotations

from typing import Final

from paceline_engine.kvcache.integrity import Books, KvIntegrityError

AUDITED_A_BEAT: Final = 1024
"""Blocks looked at in one go; `python -m bench.scheduling` measures what that takes."""


class IdleAudit:
    """One pass over the books of a pool that nobody holds a block of.

    Between two goes cached blocks may become free, as when they expire or are purged; nothing
    may be taken: after that a pass begins anew. Taken to its end it finds what `Books.check`
    finds at once: every block is free or cached and not both, as the counts add up, no block
    stands twice in the free list and no free one is cached.

    Args:
        num_blocks: Blocks in the pool.
    """

    def __init__(self, num_blocks: int) -> None:
        self._seen_free = bytearray(num_blocks)
        self._next_free = 0
        self._next_block = 0

    def advance(self, books: Books, count: int = AUDITED_A_BEAT) -> bool:
        """Looks at some more blocks.

        Args:
            books: Of the pool, as they are now.
            count: Entries of the free list, and blocks, to look at.

        Returns:
            Whether the pass is complete.

        Raises:
            KvIntegrityError: A block is held, missing, doubled, unknown or in two roles, or
                counts disagree.
        """
        _check_counts(books)
        wrong = [*self._wrong_in_free_list(books, count), *self._wrong_in_roles(books, count)]
        if wrong:
            raise KvIntegrityError(f"blocks lost, given out twice or held: {sorted({*wrong})}")
        is_through = self._next_block >= len(books.references)
        return is_through and self._next_free >= len(books.free)

    def _wrong_in_free_list(self, books: Books, count: int) -> list[int]:
        seen, wrong = self._seen_free, list[int]()
        entries = books.free[self._next_free : self._next_free + count]
        for block in entries:
            if not 0 <= block < len(seen) or seen[block] or block in books.cached:
                wrong.append(block)
            else:
                seen[block] = True
        self._next_free += len(entries)
        return wrong

    def _wrong_in_roles(self, books: Books, count: int) -> list[int]:
        index, cached, references = books.index, books.cached, books.references
        start = self._next_block
        self._next_block = min(start + count, len(references))
        return [
            block
            for block in range(start, self._next_block)
            if references[block] or index.leads_to(block) is not (block in cached)
        ]


def _check_counts(books: Books) -> None:
    """What needs no look at single blocks."""
    if books.tables or books.num_held:
        raise KvIntegrityError(
            f"{books.num_held} blocks still held, by requests {sorted(books.tables)}"
        )
    free, cached, total = len(books.free), len(books.cached), len(books.references)
    if free + cached != total:
        raise KvIntegrityError(f"{free} free and {cached} cached blocks are not {total}")
    if len(books.index) != cached:
        raise KvIntegrityError(f"{len(books.index)} blocks are found, {cached} are kept for it")
