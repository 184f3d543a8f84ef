"""A deduplicating work queue with due times: one entry per key, one worker per key at a time."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")


class WorkQueue(Generic[K]):
    """Keys that become due.

    A key is held once, with the earliest time asked for. A key that is being worked on is
    not given out again until `done`; what was asked meanwhile then counts.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._busy: set[K] = set()
        self._free_at: dict[K, float] = {}
        self._sequence = 0
        self._latest_s = 0.0
        self._taken_s = clock()
        self._changed = asyncio.Event()

    def add(self, key: K, delay_s: float = 0.0) -> None:
        """Ask for a key to be due after a delay, if it is not due earlier anyway."""
        at = self._clock() + delay_s
        if at >= self._due.get(key, float("inf")):
            return
        self._due[key] = at
        if key not in self._busy:
            self._push(at, key)

    def forget(self, key: K) -> None:
        """Drop what was asked for a key."""
        self._due.pop(key, None)
        self._free_at.pop(key, None)

    async def get(self) -> K:
        """Wait for a key that is due, and take it; call `done` afterwards."""
        while True:
            self._changed.clear()
            wait_s = self._until_next()
            if wait_s is not None and wait_s <= 0:
                return self._take()
            try:
                async with asyncio.timeout(wait_s):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def done(self, key: K) -> None:
        """Give a key back; it can be taken again when due."""
        self._busy.discard(key)
        if key in self._due:
            self._free_at[key] = self._clock()
            self._push(self._due[key], key)

    def __len__(self) -> int:
        """Keys waiting."""
        return len(self._due)

    def stuck_s(self) -> float:
        """For how long keys have been due while none was taken; 0 where none is.

        Many that are late, one after the other, are load: a new process would begin with the same.
        """
        waiting = [self._since(key, at) for key, at in self._due.items() if key not in self._busy]
        if not waiting:
            return 0.0
        return max(0.0, self._clock() - max(min(waiting), self._taken_s))

    def latest_s(self) -> float:
        """How late the latest key was taken since this was last asked.

        A key that became due while it was worked on waited for nobody else until it was given
        back: how long its own work takes says nothing about the others.
        """
        found, self._latest_s = self._latest_s, 0.0
        return found

    def _since(self, key: K, at: float) -> float:
        """Since when a key could be taken."""
        return max(at, self._free_at.get(key, at))

    def _push(self, at: float, key: K) -> None:
        self._sequence += 1
        heapq.heappush(self._heap, (at, self._sequence, key))
        self._changed.set()

    def _until_next(self) -> float | None:
        while self._heap:
            at, _, key = self._heap[0]
            if key not in self._busy and self._due.get(key) == at:
                return at - self._clock()
            heapq.heappop(self._heap)
        return None

    def _take(self) -> K:
        at, _, key = heapq.heappop(self._heap)
        self._taken_s = self._clock()
        self._latest_s = max(self._latest_s, self._taken_s - self._since(key, at))
        del self._due[key]
        self._free_at.pop(key, None)
        self._busy.add(key)
        # Several workers wait on one event: the next one must look for itself.
        self._changed.set()
        return key
