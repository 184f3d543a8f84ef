"""Prompts for which there was no room, and how much of each others were holding."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from paceline_engine.kvcache.block_ledger import BlockLedger
from paceline_engine.kvcache.prefix_chain import PrefixChain
from paceline_engine.kvcache.prefix_key import root_key
from paceline_engine.request import CacheScope

REMEMBERED: Final = 8


@dataclass(slots=True)
class Lookup:
    """One prompt, and the cached blocks it begins with.

    A prompt lacks its blocks but for those found that somebody holds: one that is found and
    held by nobody must be taken from the available ones like a fresh one. So only the held
    ones count, and only `BlockLedger.gains` can make them more.

    Attributes:
        token_ids: The prompt; may grow.
        scope: With whom it shares.
        chain: Its keys.
        held: Blocks found the last time that somebody held; None if never looked up.
        gains: The ledger's `gains` at that time.
        changes: The ledger's `changes` at that time.
    """

    token_ids: Sequence[int]
    scope: CacheScope
    chain: PrefixChain
    held: list[int] | None = None
    gains: int = 0
    changes: int = 0

    def find(self, ledger: BlockLedger, block_size: int) -> list[int]:
        """Looks up the longest chain of filled blocks before the last token."""
        hits: list[int] = []
        for index in range((len(self.token_ids) - 1) // block_size):
            block = ledger.find(self.chain.key(index, self.token_ids))
            if block is None:
                break
            hits.append(block)
        self.held = [block for block in hits if ledger.is_held(block)]
        self.gains, self.changes = ledger.gains, ledger.changes
        return hits

    def held_at_most(self, ledger: BlockLedger) -> int:
        """An upper bound of what another `find` would see held, without looking."""
        if self.held is None:
            return ledger.num_held
        return len(self.held) + ledger.gains - self.gains

    def held_now(self, ledger: BlockLedger, block_size: int) -> list[int]:
        """Blocks found that somebody holds; looks only where something has changed."""
        if self.held is None or self.changes != ledger.changes:
            self.find(ledger, block_size)
        return self.held or []


class LookupMemory:
    """Look-ups of the last few requests for which there was no room.

    They are tried at every step until there is, and the head of a queue with a long cached
    prompt would cost milliseconds each time. One is used again only for the very same
    sequence object, which this keeps alive: never for an equal id alone.

    Args:
        revision: Digest of the weights.
        block_size: Tokens in a block.
    """

    def __init__(self, revision: str, block_size: int) -> None:
        self._revision = revision
        self._block_size = block_size
        self._kept: OrderedDict[int, Lookup] = OrderedDict()

    def take(self, owner: int, token_ids: Sequence[int], scope: CacheScope) -> Lookup:
        """What is kept for this owner and these tokens, or a new one."""
        kept = self._kept.pop(owner, None)
        if kept is not None and kept.token_ids is token_ids and kept.scope == scope:
            return kept
        root = root_key(self._revision, scope)
        return Lookup(token_ids, scope, PrefixChain(root, self._block_size))

    def keep(self, owner: int, lookup: Lookup) -> None:
        """Keeps one for the owner's next attempt."""
        self._kept[owner] = lookup
        if len(self._kept) > REMEMBERED:
            self._kept.popitem(last=False)
