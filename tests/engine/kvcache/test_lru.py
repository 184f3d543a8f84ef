"""The longest unused goes first."""

from __future__ import annotations

import pytest

from paceline_engine.kvcache.lru import LruBlocks


def test_order_is_that_of_becoming_unused() -> None:
    lru = LruBlocks()
    for block, now_s in ((3, 0.0), (1, 1.0), (2, 1.0)):
        lru.add(block, now_s)
    lru.remove(3)
    lru.add(3, 2.0)
    assert (len(lru), list(lru), 3 in lru, 0 in lru) == (3, [1, 2, 3], True, False)
    assert [lru.pop_oldest() for _ in range(3)] == [1, 2, 3]
    with pytest.raises(KeyError):
        lru.pop_oldest()


def test_everything_old_enough_goes_at_once() -> None:
    lru = LruBlocks()
    for block in range(4):
        lru.add(block, float(block))
    assert lru.pop_unused_since(-1.0) == []
    assert lru.pop_unused_since(1.0) == [0, 1]
    assert lru.pop_unused_since(10.0) == [2, 3]
    assert lru.pop_unused_since(10.0) == []
