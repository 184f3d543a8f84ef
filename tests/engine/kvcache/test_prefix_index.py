"""One block for a key, one key for a block."""

from __future__ import annotations

from paceline_engine.kvcache.prefix_index import PrefixIndex


def test_the_first_of_equal_blocks_stays_findable() -> None:
    index = PrefixIndex(4)
    index.publish(2, b"k")
    index.publish(3, b"k")
    assert index.find(b"k") == 2
    assert (index.has(2), index.has(3), len(index)) == (True, False, 1)
    index.withdraw(3)
    assert index.find(b"k") == 2


def test_what_is_withdrawn_is_not_found() -> None:
    index = PrefixIndex(4)
    index.publish(2, b"k")
    index.withdraw(2)
    index.withdraw(2)
    assert index.find(b"k") is None
    assert index.findable() == set()
    index.publish(3, b"k")
    assert index.findable() == {3}
    assert list(index.disagreements()) == []


def test_disagreements_are_named() -> None:
    index = PrefixIndex(4)
    index.publish(1, b"k")
    index._key_of[1] = b"other"
    assert set(index.disagreements()) == {1}
    index._key_of[1] = b"k"
    index._key_of[2] = b"stray"
    assert list(index.disagreements()) == [2]
