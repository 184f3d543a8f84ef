"""A block holds one scope's KV at most, and each scope's blocks are found without a search."""

from __future__ import annotations

from paceline_engine.kvcache.writers import Writers
from paceline_engine.request import CacheScope

A, B = CacheScope(tenant="a"), CacheScope(tenant="b")


def test_blocks_change_hands_overwritten() -> None:
    writers = Writers(4)
    assert writers.assign([0, 1], A) == []
    assert writers.assign([1, 2], CacheScope(tenant="a")) == []
    assert writers.assign([1, 3], B) == [1]
    assert (writers.blocks(A), writers.blocks(B)) == ({0, 2}, {1, 3})


def test_what_is_overwritten_is_nobodys() -> None:
    writers = Writers(4)
    writers.assign([0, 1], A)
    writers.blank([1, 3])
    assert writers.blocks(A) == {0}
    assert writers.assign([1], B) == []


def test_scopes_of_which_nothing_is_left_are_forgotten() -> None:
    """Callers may send a new salt with every request."""
    writers = Writers(2)
    for number in range(50):
        writers.assign([0, 1], CacheScope(salt=str(number)))
    assert list(writers.scopes()) == [CacheScope(salt="49")]
    writers.blank([0, 1])
    writers.assign([], A)
    assert list(writers.scopes()) == []
