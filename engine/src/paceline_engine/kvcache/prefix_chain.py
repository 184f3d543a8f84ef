"""The keys of one sequence's full blocks, each computed once and only when it is asked for."""

from __future__ import annotations

from collections.abc import Sequence

from paceline_engine.kvcache.prefix_key import block_key


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
