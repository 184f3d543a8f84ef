"""Whose KV each block holds, in use or not, until it is overwritten."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from paceline_engine.request import CacheScope


@dataclass(slots=True, eq=False)
class _Remains:
    scope: CacheScope
    blocks: set[int] = field(default_factory=set)


class Writers:
    """One scope for each block at most: a block changes hands overwritten.

    Args:
        num_blocks: Blocks in the pool; all hold nothing.
    """

    def __init__(self, num_blocks: int) -> None:
        self._in: list[_Remains | None] = [None] * num_blocks
        self._of: dict[CacheScope, _Remains] = {}

    def scopes(self) -> Iterator[CacheScope]:
        """Scopes of which anything is in any block."""
        return iter(self._of)

    def blocks(self, scope: CacheScope) -> frozenset[int]:
        """Blocks that hold KV of the scope."""
        remains = self._of.get(scope)
        return frozenset(remains.blocks) if remains else frozenset()

    def assign(self, block_ids: Iterable[int], scope: CacheScope) -> list[int]:
        """The scope will write to these blocks.

        Returns:
            Those that hold another's KV, to be overwritten first.
        """
        mine = self._of.get(scope) or _Remains(scope)
        foreign: list[int] = []
        for block in block_ids:
            former = self._in[block]
            if former is mine:
                continue
            if former is not None:
                self._leave(block, former)
                foreign.append(block)
            self._in[block] = mine
            mine.blocks.add(block)
        if mine.blocks and mine.scope not in self._of:
            self._of[scope] = mine
        return foreign

    def blank(self, block_ids: Iterable[int]) -> None:
        """These blocks are overwritten."""
        for block in block_ids:
            if (former := self._in[block]) is not None:
                self._leave(block, former)
                self._in[block] = None

    def _leave(self, block: int, former: _Remains) -> None:
        former.blocks.remove(block)
        if not former.blocks:
            del self._of[former.scope]
