"""Cached blocks in the order in which they are given up: the longest unused first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator


class LruBlocks:
    """A set of blocks with the time since when each is unused.

    Times never run backwards from one `add` to the next, so the order of adding is the order
    of age.
    """

    def __init__(self) -> None:
        self._since_s: OrderedDict[int, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._since_s)

    def __contains__(self, block: object) -> bool:
        return block in self._since_s

    def __iter__(self) -> Iterator[int]:
        return iter(self._since_s)

    def add(self, block: int, now_s: float) -> None:
        """Adds a block that has just become unused; it is given up last."""
        self._since_s[block] = now_s

    def remove(self, block: int) -> None:
        """Takes a block out: it is used again, or dropped."""
        del self._since_s[block]

    def pop_oldest(self) -> int:
        """Takes out the longest unused block.

        Raises:
            KeyError: There is none.
        """
        return self._since_s.popitem(last=False)[0]

    def pop_unused_since(self, limit_s: float) -> list[int]:
        """Takes out every block that became unused at `limit_s` or before."""
        popped: list[int] = []
        while self._since_s and next(iter(self._since_s.values())) <= limit_s:
            popped.append(self.pop_oldest())
        return popped
