"""Which filled block has which key; only what stands here can be a hit."""

from __future__ import annotations

from collections.abc import Iterable


class PrefixIndex:
    """One block for each key and one key for each block at most.

    Args:
        num_blocks: Blocks in the pool.
    """

    def __init__(self, num_blocks: int) -> None:
        self._block_of: dict[bytes, int] = {}
        self._key_of: list[bytes | None] = [None] * num_blocks

    def __len__(self) -> int:
        return len(self._block_of)

    def find(self, key: bytes) -> int | None:
        """The block with this key."""
        return self._block_of.get(key)

    def has(self, block: int) -> bool:
        """Whether the block can be found."""
        return self._key_of[block] is not None

    def publish(self, block: int, key: bytes) -> bool:
        """Makes a filled block findable; of several with one key the first stays so.

        Returns:
            Whether it is this one.
        """
        if key in self._block_of:
            return False
        self._block_of[key] = block
        self._key_of[block] = key
        return True

    def withdraw(self, block: int) -> None:
        """Makes a block unfindable; nothing happens where it is so."""
        key = self._key_of[block]
        if key is not None:
            del self._block_of[key]
            self._key_of[block] = None

    def findable(self) -> set[int]:
        """All blocks that can be found."""
        return set(self._block_of.values())

    def leads_to(self, block: int) -> bool:
        """Whether the block has a key, and the key leads to it."""
        key = self._key_of[block]
        return key is not None and self._block_of.get(key) == block

    def disagreements(self) -> Iterable[int]:
        """Blocks whose key does not lead to them, or that a key not theirs leads to."""
        strangers = [block for key, block in self._block_of.items() if self._key_of[block] != key]
        yield from strangers
        if strangers or len(self._key_of) - self._key_of.count(None) != len(self._block_of):
            for block, key in enumerate(self._key_of):
                if key is not None and self._block_of.get(key) != block:
                    yield block
