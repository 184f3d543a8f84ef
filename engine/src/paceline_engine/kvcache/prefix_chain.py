"""The keys of one sequence's full blocks, each computed once and only when it is asked for."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from paceline_engine.kvcache.prefix_key import block_key, root_key
from paceline_engine.request import CacheScope

REMEMBERED: Final = 8


class PrefixChain:
    """Keys in token order; what is known of the tokens may grow, but never change.

    Args:
        root: Key before the first block.
        block_size: Tokens in a block.
    """

    __slots__ = ("_block_size", "_keys", "_root")

    def __init__(self, root: bytes, block_size: int) -> None:
        self._root = root
        self._block_size = block_size
        self._keys: list[bytes] = []

    def key(self, index: int, token_ids: Sequence[int]) -> bytes:
        """Key of the block at `index`, all of whose tokens are in `token_ids`."""
        keys, size = self._keys, self._block_size
        while len(keys) <= index:
            start = len(keys) * size
            parent = keys[-1] if keys else self._root
            keys.append(block_key(parent, token_ids[start : start + size]))
        return keys[index]

    def fork(self, num_blocks: int) -> PrefixChain:
        """A chain of its own that begins with the first `num_blocks` keys known here."""
        chain = PrefixChain(self._root, self._block_size)
        chain._keys = self._keys[:num_blocks]
        return chain


class ChainMemory:
    """Chains of the last few requests for which there was no room.

    They are looked up at every step until there is, and the head of a queue with a long
    cached prompt would cost a millisecond each time. A chain is used again only for the
    very same sequence object, which this keeps alive: never for an equal id alone.

    Args:
        revision: Digest of the weights.
        block_size: Tokens in a block.
    """

    def __init__(self, revision: str, block_size: int) -> None:
        self._revision = revision
        self._block_size = block_size
        self._kept: OrderedDict[int, tuple[Sequence[int], CacheScope, PrefixChain]]
        self._kept = OrderedDict()

    def take(self, owner: int, token_ids: Sequence[int], scope: CacheScope) -> PrefixChain:
        """The chain kept for this owner and these tokens, or a new one."""
        kept = self._kept.pop(owner, None)
        if kept is not None and kept[0] is token_ids and kept[1] == scope:
            return kept[2]
        return PrefixChain(root_key(self._revision, scope), self._block_size)

    def keep(
        self, owner: int, token_ids: Sequence[int], scope: CacheScope, chain: PrefixChain
    ) -> None:
        """Keeps a chain for the owner's next attempt."""
        self._kept[owner] = (token_ids, scope, chain)
        if len(self._kept) > REMEMBERED:
            self._kept.popitem(last=False)
