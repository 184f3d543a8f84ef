"""The decode rows of an engine: each gets a token in every step, so none is touched by one.

A row stands where it stood when it began to decode, and one further for each step since. So
it is known beforehand in which step a row ends and in which ones it needs a block; what a step
costs does not depend on how many rows it has.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from paceline_operator.simulator.engine.sequence import Sequence


class Decodes:
    """Rows, counted by when they need something.

    Args:
        block_size: Tokens in a KV block.

    Attributes:
        steps: Steps that have run; the number of the next one.
        count: Rows by tier.
        kv_tokens: Tokens that the rows have computed.
    """

    def __init__(self, block_size: int) -> None:
        self.steps = 0
        self.count = [0, 0]
        self.kv_tokens = 0
        self._size = block_size
        self._needing = [0] * block_size
        self._ends: list[tuple[int, int, Sequence]] = []

    def __len__(self) -> int:
        return self.count[0] + self.count[1]

    def add(self, sequence: Sequence) -> None:
        """A request decodes from the next step on; it may draw a token more at least."""
        computed = sequence.computed
        sequence.is_decoding = True
        sequence.offset = computed - self.steps
        sequence.end_step = self.steps + sequence.max_total - computed - 2
        self.count[sequence.tier] += 1
        self.kv_tokens += computed
        self._needing[-sequence.offset % self._size] += 1
        heapq.heappush(self._ends, (sequence.end_step, sequence.rank, sequence))

    def remove(self, sequence: Sequence) -> None:
        """Takes a row out; `computed` and `known` are right again."""
        self.locate(sequence)
        sequence.is_decoding = False
        self.count[sequence.tier] -= 1
        self.kv_tokens -= sequence.computed
        self._needing[-sequence.offset % self._size] -= 1

    def locate(self, sequence: Sequence) -> None:
        """Brings `computed` and `known` of a row up to date."""
        sequence.computed = self.steps + sequence.offset
        sequence.known = sequence.computed + 1

    def advance(self, steps: int) -> None:
        """So many steps have run."""
        self.steps += steps
        self.kv_tokens += steps * len(self)

    def needs_block(self, sequence: Sequence) -> bool:
        """Whether a row needs a block for the next step."""
        return not (self.steps + sequence.offset) % self._size

    @property
    def blocks_needed_next(self) -> int:
        """Blocks that the rows need for the next step."""
        return self._needing[self.steps % self._size]

    def blocks_needed(self, after: int, steps: int) -> int:
        """Blocks that the rows need for so many steps, from `after` steps on."""
        needing, size = self._needing, self._size
        rounds, rest = divmod(steps, size)
        first = (self.steps + after) % size
        some = sum(needing[first : first + rest]) + sum(needing[: max(0, first + rest - size)])
        return rounds * len(self) + some

    def steps_within(self, after: int, blocks: int) -> int:
        """The most steps, from `after` steps on, for which so many blocks suffice."""
        needing, size = self._needing, self._size
        rounds, left = divmod(blocks, len(self))
        steps, place = rounds * size, self.steps + after
        while (left := left - needing[place % size]) >= 0:
            steps, place = steps + 1, place + 1
        return steps

    @property
    def until_end(self) -> int:
        """Steps until the first row ends, that one included; there is a row."""
        ends = self._ends
        while not _holds(ends[0]):
            heapq.heappop(ends)
        return ends[0][0] + 1 - self.steps

    def ended(self) -> Iterator[Sequence]:
        """Rows that the steps so far have ended, in the order of service; takes them out."""
        ends = self._ends
        while ends and ends[0][0] < self.steps:
            entry = heapq.heappop(ends)
            if _holds(entry):
                self.remove(entry[2])
                yield entry[2]


def _holds(entry: tuple[int, int, Sequence]) -> bool:
    """Whether a row is still the one that was noted."""
    end_step, rank, sequence = entry
    return sequence.is_decoding and sequence.rank == rank and sequence.end_step == end_step
