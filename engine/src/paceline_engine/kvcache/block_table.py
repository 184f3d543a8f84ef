"""One owner's blocks in token order, and how far others may find them."""

from __future__ import annotations

from dataclasses import dataclass, field

from paceline_engine.kvcache.prefix_chain import PrefixChain
from paceline_engine.request import CacheScope


@dataclass(slots=True)
class BlockTable:
    """What the pool knows of an owner.

    Attributes:
        scope: With whom its blocks may be shared.
        chain: Keys of its full blocks; None where nothing is looked up or published.
        block_ids: Grows in place.
        num_filled: Leading blocks whose tokens are computed and whose keys were offered.
        is_cleared: Its cache was purged while it ran: nothing of it is findable again, and
            its blocks are overwritten once nobody holds them. All holders of a block have
            one scope, so all of them are cleared together.
    """

    scope: CacheScope
    chain: PrefixChain | None = None
    block_ids: list[int] = field(default_factory=list)
    num_filled: int = 0
    is_cleared: bool = False

    def fork(self, block_ids: list[int], num_full: int) -> BlockTable:
        """A table over leading blocks of this one, `num_full` of them full."""
        filled = min(self.num_filled, num_full)
        chain = self.chain.fork(filled) if self.chain else None
        return BlockTable(self.scope, chain, block_ids, filled, self.is_cleared)
