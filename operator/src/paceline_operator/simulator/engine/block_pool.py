"""Paged KV accounting: how many blocks are free, held or cached, and what can be found.

Blocks are counted, not numbered. Of a request whose prompt nobody shares nothing need be found
but by itself, after a preemption: its filled blocks are cached as one run and lose their tail
first. Of the others every filled block has a key. The index says how many tables hold the block
of a key; the block is cached where none does. Of several blocks with one key the first stays
findable; another one is plain, and free as soon as it is let go.

What a request draws is found by itself alone, so its keys are noted only when it lets go; but
those of a request of whose own blocks some are cached while it computes them anew, at once.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable
from itertools import takewhile

from paceline_operator.simulator.engine.prefix_keys import own_key
from paceline_operator.simulator.engine.sequence import Sequence


class BlockPool:
    """Blocks of `block_size` tokens each.

    Args:
        num_blocks: Blocks in the pool.
        block_size: Tokens in one block.
        prefix_caching: Whether filled blocks are kept for prompts that begin alike.

    Attributes:
        free: Blocks that hold nothing of use.
        cached: Filled blocks that nobody holds, kept for reuse.
        queries_tokens: Tokens looked up by requests when they were first let in.
        hits_tokens: Of those, tokens found.
    """

    def __init__(self, num_blocks: int, block_size: int, *, prefix_caching: bool) -> None:
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.free = num_blocks
        self.cached = 0
        self.queries_tokens = 0
        self.hits_tokens = 0
        self._caches = prefix_caching
        self._holders: dict[Sequence | int, int] = {}
        self._unused: OrderedDict[Sequence | int, int] = OrderedDict()

    @property
    def available(self) -> int:
        """Blocks that can be given out: free ones, then the longest unused cached ones."""
        return self.free + self.cached

    @property
    def held(self) -> int:
        """Blocks that somebody holds."""
        return self.num_blocks - self.free - self.cached

    def blocks_for(self, tokens: int) -> int:
        """Blocks that so many tokens occupy."""
        return -(-tokens // self.block_size)

    def take(self, count: int) -> None:
        """Gives out blocks that nobody holds, so many of which are available."""
        if count <= self.free:
            self.free -= count
            return
        self._evict(count - self.free)
        self.free = 0

    def admit(self, sequence: Sequence, spare: int) -> int | None:
        """Gives a request blocks for all its known text, cached ones where they match.

        The last token is never found: it must run for the next one to be drawn.

        Args:
            sequence: Holds nothing.
            spare: Blocks that must still be available afterwards.

        Returns:
            Leading tokens that need not be computed; None if there is no room, and then nothing
            has changed.
        """
        if not sequence.keys:
            return self._admit_alone(sequence, spare)
        lacking = self.blocks_for(sequence.known) + spare - self.available
        if lacking > self.held:
            return None
        hits = self._find(sequence)
        if lacking > sum(map(self._is_held, hits)):
            return None
        self._hold(hits)
        self.take(self.blocks_for(sequence.known) - len(hits))
        sequence.table = list(hits)
        sequence.is_remnant = bool(sequence.preemptions) and self._has_more(sequence)
        return self._count(sequence, len(hits))

    def lacks(self, sequence: Sequence, spare: int, without: list[Sequence]) -> bool:
        """Whether a request would have no room even if these others were gone."""
        leaving = self._only_held_by(without)
        held_hits = [key for key in self._find(sequence) if self._is_held(key)]
        gone = self._keys_only_held_by(without) if held_hits else frozenset()
        needed = self.blocks_for(sequence.known) - sum(key not in gone for key in held_hits)
        return needed + spare > self.available + leaving

    def fill(self, sequence: Sequence) -> None:
        """Makes blocks findable that a request has filled."""
        table, keys, holders = sequence.table, sequence.keys, self._holders
        first, end = len(table), sequence.computed // self.block_size
        own = range(max(first, len(keys)), end)
        for key in (*keys[first:end], *(own_key(sequence.arrival, place) for place in own)):
            if key in holders:
                table.append(None)
            else:
                holders[key] = 1
                table.append(key)

    def release(self, sequence: Sequence) -> None:
        """Lets go of all blocks of a request; its tail is given up before its head."""
        held = self.blocks_for(max(sequence.computed, sequence.prefill_end))
        if sequence.keys:
            self.fill(sequence)
            self._let_go(sequence.table, held)
            sequence.table = []
            return
        filled = sequence.computed // self.block_size if self._caches else 0
        self.free += held - filled
        if filled:
            self.cached += filled
            self._unused[sequence] = filled

    def _admit_alone(self, sequence: Sequence, spare: int) -> int | None:
        needed = self.blocks_for(sequence.known)
        if needed + spare > self.available:
            return None
        found = self._unused.pop(sequence, 0) if sequence.preemptions else 0
        self.cached -= found
        self.take(needed - found)
        return self._count(sequence, found)

    def _count(self, sequence: Sequence, hits: int) -> int:
        """Counts a first look-up; one after a preemption finds its own work."""
        if self._caches and not sequence.preemptions:
            self.queries_tokens += sequence.known
            self.hits_tokens += hits * self.block_size
        return hits * self.block_size

    def _find(self, sequence: Sequence) -> list[int]:
        """Keys of the cached or held blocks that a request's text begins with."""
        if not sequence.keys:
            return []
        most = (sequence.known - 1) // self.block_size
        hits = list(takewhile(self._holders.__contains__, sequence.keys[:most]))
        if sequence.preemptions and len(hits) == len(sequence.keys):
            own = (own_key(sequence.arrival, place) for place in range(len(hits), most))
            hits.extend(takewhile(self._holders.__contains__, own))
        return hits

    def _has_more(self, sequence: Sequence) -> bool:
        """Whether blocks of its own are cached beyond those that it has found."""
        first = max(len(sequence.table), len(sequence.keys))
        places = range(first, sequence.known // self.block_size)
        return any(own_key(sequence.arrival, place) in self._holders for place in places)

    def _hold(self, keys: list[int]) -> None:
        holders, unused = self._holders, self._unused
        for key in keys:
            if not holders[key]:
                del unused[key]
                self.cached -= 1
            holders[key] += 1

    def _let_go(self, table: list[int | None], held: int) -> None:
        holders, unused = self._holders, self._unused
        before, shared = len(unused), 0
        for key in reversed(table):
            if key is None:
                continue
            others = holders[key] = holders[key] - 1
            if others:
                shared += 1
            else:
                unused[key] = 1
        cached = len(unused) - before
        self.cached += cached
        self.free += held - cached - shared

    def _evict(self, count: int) -> None:
        unused, holders = self._unused, self._holders
        self.cached -= count
        while count:
            oldest, size = unused.popitem(last=False)
            if size > count:
                unused[oldest] = size - count
                unused.move_to_end(oldest, last=False)
                return
            holders.pop(oldest, None)
            count -= size

    def _is_held(self, key: int) -> bool:
        return self._holders[key] > 0

    def _only_held_by(self, sequences: list[Sequence]) -> int:
        """Blocks that would become available were these requests gone."""
        tables = sum(self.blocks_for(max(each.computed, each.prefill_end)) for each in sequences)
        named = sum(key is not None for each in sequences for key in each.table)
        return tables - named + len(self._keys_only_held_by(sequences))

    def _keys_only_held_by(self, sequences: Iterable[Sequence]) -> frozenset[int]:
        counts = Counter(key for each in sequences for key in each.table if key is not None)
        return frozenset(key for key, count in counts.items() if count == self._holders[key])
