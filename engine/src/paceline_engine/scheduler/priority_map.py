"""A priority queue whose items can be moved and taken out: O(log n) amortised for each."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterator
from typing import Any, Generic, TypeVar

ItemT = TypeVar("ItemT", bound=Hashable)
PriorityT = TypeVar("PriorityT", bound=tuple[Any, ...])

_SLACK = 64


class PriorityMap(Generic[ItemT, PriorityT]):
    """Items by priority, the smallest first; of equal ones the one set first.

    What was moved or taken out stays in the heap as a dead entry. Once more entries are dead
    than alive the heap is built anew, so memory follows the items and not their history.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[PriorityT, int, ItemT]] = []
        self._live: dict[ItemT, tuple[PriorityT, int, ItemT]] = {}
        self._serial = 0

    def __len__(self) -> int:
        return len(self._live)

    def __contains__(self, item: ItemT) -> bool:
        return item in self._live

    def __iter__(self) -> Iterator[ItemT]:
        """In no order."""
        return iter(self._live)

    def set(self, item: ItemT, priority: PriorityT) -> None:
        """Adds the item, or moves it."""
        known = self._live.get(item)
        if known is not None and known[0] == priority:
            return
        self._serial += 1
        entry = self._live[item] = (priority, self._serial, item)
        heapq.heappush(self._heap, entry)
        self._compact()

    def remove(self, item: ItemT) -> bool:
        """Takes the item out; returns whether it was there."""
        if self._live.pop(item, None) is None:
            return False
        self._compact()
        return True

    def first(self) -> tuple[PriorityT, ItemT] | None:
        """Smallest priority and its item; None if there is nothing."""
        heap = self._heap
        while heap:
            entry = heap[0]
            if self._live.get(entry[2]) is entry:
                return entry[0], entry[2]
            heapq.heappop(heap)
        return None

    def _compact(self) -> None:
        if len(self._heap) > 2 * len(self._live) + _SLACK:
            self._heap = list(self._live.values())
            heapq.heapify(self._heap)
