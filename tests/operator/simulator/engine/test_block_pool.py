"""KV accounting of the simulated engine: counts, hits, order of giving up."""

from __future__ import annotations

import pytest

from paceline_operator.simulator.engine.block_pool import BlockPool
from paceline_operator.simulator.engine.prefix_keys import shared_keys
from paceline_operator.simulator.engine.sequence import Sequence
from paceline_operator.simulator.request import Request
from paceline_operator.simulator.sink import Served


class Pool(BlockPool):
    """Eight-block pool of 16 tokens each, whose counts are checked."""

    def __init__(self, blocks: int = 8, *, prefix_caching: bool = True) -> None:
        super().__init__(blocks, 16, prefix_caching=prefix_caching)

    def run(self, sequence: Sequence, tokens: int | None = None) -> int | None:
        """Lets a request in and computes its prompt, or so much of it."""
        cached = self.admit(sequence, 0)
        if cached is not None:
            sequence.let_in(cached, sequence.arrival)
            sequence.computed = sequence.known if tokens is None else tokens
            if sequence.keys:
                self.fill(sequence)
        assert self.free + self.cached + self.held == self.num_blocks
        return cached

    def stop(self, sequence: Sequence, *, is_preempted: bool = False) -> None:
        self.release(sequence)
        if is_preempted:
            sequence.preempt()
        assert self.free + self.cached + self.held == self.num_blocks

    @property
    def counts(self) -> tuple[int, int, int]:
        return self.free, self.cached, self.held


_numbers = iter(range(1, 10_000))


def request(prompt: int, *ids: int) -> Sequence:
    number, load = next(_numbers), Request(0.0, prompt, 100, ids)
    sequence = Sequence(Served(load, number, 0.0), number, prompt + 100, 10.0)
    sequence.keys = shared_keys(load, 16)
    return sequence


def test_a_request_takes_blocks_for_all_it_knows_and_leaves_full_ones_cached() -> None:
    pool, one = Pool(), request(40)
    assert pool.run(one) == 0
    assert pool.counts == (5, 0, 3)
    pool.stop(one)
    assert pool.counts == (6, 2, 0)
    assert (pool.queries_tokens, pool.hits_tokens) == (40, 0)


def test_nothing_is_kept_without_prefix_caching() -> None:
    pool, one = Pool(prefix_caching=False), request(40)
    pool.run(one)
    pool.stop(one)
    assert pool.counts == (8, 0, 0)
    assert pool.queries_tokens == 0


def test_prompts_that_begin_alike_share_blocks() -> None:
    pool, one, other = Pool(), request(50, 7), request(70, 7)
    pool.run(one)
    assert pool.run(other) == 48
    assert pool.counts == (2, 0, 6)
    pool.stop(one)
    assert pool.counts == (3, 0, 5)
    pool.stop(other)
    assert pool.counts == (4, 4, 0)
    assert (pool.queries_tokens, pool.hits_tokens) == (120, 48)


def test_the_last_token_is_never_found() -> None:
    pool = Pool()
    first, second = request(32, 7), request(32, 7)
    pool.run(first)
    pool.stop(first)
    assert pool.run(second) == 16


def test_of_two_blocks_with_one_key_the_first_stays_findable() -> None:
    """The second one is plain: it is free once it is let go, and the first stays cached."""
    pool, one, other = Pool(), request(34, 7), request(34, 7)
    assert pool.run(one, tokens=0) == pool.run(other, tokens=0) == 0
    for each in (one, other):
        each.computed = 34
        pool.fill(each)
    pool.stop(other)
    assert pool.counts == (5, 0, 3)
    pool.stop(one)
    assert pool.counts == (6, 2, 0)


def test_the_longest_unused_is_given_up_first_and_a_tail_before_its_head() -> None:
    pool = Pool(7)
    old, new = request(49, 1), request(33, 2)
    pool.run(old)
    pool.stop(old)
    pool.run(new)
    pool.stop(new)
    assert pool.counts == (2, 5, 0)
    pool.take(4)
    assert pool.counts == (0, 3, 4)
    pool.free += 4
    assert pool.run(request(49, 1)) == 16
    assert pool.run(request(33, 2)) == 32


def test_a_preempted_request_finds_its_own_blocks_again() -> None:
    pool, one = Pool(), request(40)
    pool.run(one)
    one.computed, one.known = 52, 53
    pool.take(1)
    pool.stop(one, is_preempted=True)
    assert pool.counts == (5, 3, 0)
    pool.take(6)
    assert pool.counts == (0, 2, 6)
    pool.free += 2
    assert pool.run(one) == 32
    assert pool.queries_tokens == 40


@pytest.mark.parametrize("ids", [(), (7,)])
def test_one_whose_blocks_are_gone_begins_anew(ids: tuple[int, ...]) -> None:
    pool, one = Pool(), request(40, *ids)
    pool.run(one)
    pool.stop(one, is_preempted=True)
    pool.take(8)
    pool.free += 8
    assert pool.run(one) == 0


def test_own_blocks_behind_a_gap_are_computed_twice_and_kept_once() -> None:
    """The shared beginning is another's block, given up before; what follows is still cached."""
    pool, first, one = Pool(9), request(20, 7), request(36, 7)
    pool.run(first, tokens=0)
    pool.run(one, tokens=0)
    for each in (first, one):
        each.computed = each.known
        pool.fill(each)
    pool.stop(first)
    one.computed, one.known = 50, 51
    pool.take(1)
    assert one.table == [None, one.keys[1]]
    pool.stop(one, is_preempted=True)
    assert pool.counts == (6, 3, 0)
    pool.take(7)
    pool.free += 7
    assert pool.counts == (7, 2, 0)
    assert pool.run(one) == 0
    assert one.is_remnant
    assert pool.counts == (3, 2, 4)
    pool.stop(one)
    assert pool.counts == (6, 3, 0)


@pytest.mark.parametrize(("spare", "fits"), [(0, True), (3, True), (4, False)])
def test_spare_blocks_stay_available(spare: int, fits: bool) -> None:
    pool, one = Pool(), request(80)
    assert (pool.admit(one, spare) is not None) is fits
    assert pool.counts == ((3, 0, 5) if fits else (8, 0, 0))


def test_held_hits_need_no_room() -> None:
    pool, one = Pool(4), request(50, 7)
    pool.run(one)
    assert pool.run(request(49, 7)) is None
    assert pool.run(request(47, 7)) == 32 or pool.free == 0


def test_what_victims_would_leave_is_counted_once() -> None:
    pool, one, other = Pool(6), request(50, 7), request(50, 7)
    pool.run(one)
    pool.run(other)
    assert pool.counts == (1, 0, 5)
    wide = request(96)
    assert pool.lacks(wide, 0, [one])
    assert pool.lacks(wide, 0, [other])
    assert not pool.lacks(wide, 0, [one, other])
    assert pool.lacks(wide, 1, [one, other])
    alike = request(60, 7)
    assert not pool.lacks(alike, 0, [])
    assert pool.lacks(alike, 1, [])
    assert not pool.lacks(alike, 1, [other])
