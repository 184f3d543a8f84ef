"""Keys are computed once, in order."""

from __future__ import annotations

import pytest

from paceline_engine.kvcache import prefix_chain
from paceline_engine.kvcache.prefix_chain import PrefixChain
from paceline_engine.kvcache.prefix_key import block_key, root_key
from paceline_engine.request import CacheScope

SCOPE = CacheScope(tenant="a")


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """Tokens of each block whose key is computed."""
    blocks: list[list[int]] = []

    def counting(parent: bytes, token_ids: list[int]) -> bytes:
        blocks.append(list(token_ids))
        return block_key(parent, token_ids)

    monkeypatch.setattr(prefix_chain, "block_key", counting)
    return blocks


def test_a_chain_is_the_keys_one_after_the_other(hashed: list[list[int]]) -> None:
    root = root_key("r", SCOPE)
    chain = PrefixChain(root, 2)
    second = chain.key(1, [1, 2, 3, 4, 5])
    assert second == block_key(block_key(root, [1, 2]), [3, 4])
    assert chain.key(0, [1, 2, 3, 4]) == block_key(root, [1, 2])
    assert hashed == [[1, 2], [3, 4]]


def test_a_fork_goes_its_own_way(hashed: list[list[int]]) -> None:
    chain = PrefixChain(root_key("r", SCOPE), 2)
    chain.key(1, [1, 2, 3, 4])
    child = chain.fork(1)
    assert child.key(1, [1, 2, 9, 9]) != chain.key(1, [1, 2, 3, 4])
    assert child.key(0, [1, 2]) == chain.key(0, [1, 2])
    assert hashed == [[1, 2], [3, 4], [9, 9]]
