"""The proof that no block is lost, doubled or in two roles; for tests and an idle engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from paceline_engine.kvcache.prefix_index import PrefixIndex


class KvIntegrityError(RuntimeError):
    """Blocks were lost or given out twice: a defect of the engine, never of a request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """Everything the pool knows, to be compared with itself.

    Attributes:
        free: Free list.
        cached: Blocks kept for reuse.
        tables: Block ids by owner.
        references: Number of tables each block stands in, by block id.
        num_held: The pool's own count of held blocks.
        index: Findable blocks.
    """

    free: Sequence[int]
    cached: Collection[int]
    tables: Mapping[int, Sequence[int]]
    references: Sequence[int]
    num_held: int
    index: PrefixIndex

    def check(self) -> None:
        """Counts every block; takes time in proportion to the pool.

        Raises:
            KvIntegrityError: A block is missing, doubled, unknown or in two roles, a table
                holds one twice, or counts disagree.
        """
        held = self._held()
        cached = set(self.cached)
        self._check_roles(held, cached)
        if self.num_held != len(held):
            raise KvIntegrityError(f"{len(held)} blocks are held, not {self.num_held}")
        self._check_references(held)
        self._check_index(cached)

    def _check_roles(self, held: Counter[int], cached: set[int]) -> None:
        total = len(self.references)
        count = len(self.free) + len(cached) + len(held)
        if count == total and {*self.free, *cached, *held} == set(range(total)):
            return
        roles = Counter([*self.free, *cached, *held])
        wrong = {*range(total), *roles} - {b for b in range(total) if roles[b] == 1}
        raise KvIntegrityError(f"blocks lost or given out twice: {sorted(wrong)}")

    def _held(self) -> Counter[int]:
        held: Counter[int] = Counter()
        for owner, block_ids in self.tables.items():
            if len(set(block_ids)) != len(block_ids):
                raise KvIntegrityError(f"the table of request {owner} holds a block twice")
            held.update(block_ids)
        return held

    def _check_references(self, held: Counter[int]) -> None:
        num_referenced = len(self.references) - self.references.count(0)
        wrong = [block for block, count in held.items() if self.references[block] != count]
        if wrong or num_referenced != len(held):
            raise KvIntegrityError(f"references of blocks {wrong or 'let go'} are miscounted")

    def _check_index(self, cached: set[int]) -> None:
        findable = self.index.findable()
        if wrong := sorted({*self.index.disagreements(), *findable.intersection(self.free)}):
            raise KvIntegrityError(f"blocks {wrong} are found under a key that is not theirs")
        if wrong := sorted(cached - findable):
            raise KvIntegrityError(f"blocks {wrong} are kept although nobody can find them")
