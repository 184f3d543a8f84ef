"""Every request the engine knows: queued, beside its parent, or running; and the moves between."""

from __future__ import annotations

from collections.abc import Iterable

from paceline_engine.config import EngineConfig
from paceline_engine.kvcache.block_pool import BlockPool
from paceline_engine.request import Tier
from paceline_engine.scheduler.fair_queue import FairQueue
from paceline_engine.scheduler.forks import Forks, may_fork
from paceline_engine.scheduler.running import RunningSet
from paceline_engine.scheduler.sequence import Sequence


class Roster:
    """Keeps queue, forks, running set and block tables in step.

    Args:
        config: Weights and sizes.

    Attributes:
        queue: Who may run next.
        forks: Who waits beside a parent.
        running: Who holds blocks.
        pool: The blocks.
    """

    def __init__(self, config: EngineConfig) -> None:
        self.queue = FairQueue(config)
        self.forks = Forks()
        self.running = RunningSet()
        self.pool = BlockPool(
            config.num_kv_blocks,
            config.block_size,
            prefix_caching=config.prefix_caching,
            retention_s=config.cache_retention_s,
            revision=config.model_revision,
        )

    def num_running(self, tier: Tier) -> int:
        """Running requests of a tier."""
        batch = self.running.num_batch
        return batch if tier is Tier.BATCH else len(self.running) - batch

    def num_waiting(self, tier: Tier) -> int:
        """Waiting requests of a tier."""
        return self.queue.count(tier) + self.forks.count(tier)

    def waiting_tokens(self, tier: Tier) -> int:
        """What they must compute before each draws its next token; a fork only one."""
        return self.queue.tokens(tier) + self.forks.count(tier)

    def find(self, request_id: int) -> Sequence | None:
        """The request of that id, wherever it is."""
        for place in (self.running, self.queue, self.forks):
            if (sequence := place.get(request_id)) is not None:
                return sequence
        return None

    def add(self, sequence: Sequence) -> None:
        """Lets a new request wait: beside its parent until that has its prompt, else queued."""
        parent_id = sequence.parent_id
        parent = None if parent_id is None else self.find(parent_id)
        if parent is None or not may_fork(sequence.request, parent.request):
            self.queue.add(sequence)
        elif parent.has_prompt:
            self._release(sequence, parent.request_id)
        else:
            self.forks.add(sequence, parent.request_id)

    def abort(self, request_ids: Iterable[int], now_s: float) -> None:
        """Drops requests wherever they are; unknown ids are ignored.

        All are gone before any child gets another parent: of a family that leaves together
        none is moved.
        """
        gone = [request_id for request_id in request_ids if self._drop(request_id, now_s)]
        for request_id in gone:
            self._orphan_children(request_id)

    def preempt(self, sequence: Sequence, now_s: float) -> None:
        """Takes a running request's blocks back and queues it; its children wait beside it."""
        request_id = sequence.request_id
        self.running.remove(request_id)
        self.pool.release(request_id, now_s)
        sequence.preempt()
        self.queue.resume(sequence)
        for child in self._recall_children(request_id):
            self.forks.add(child, request_id)

    def end(self, request_id: int, now_s: float, *, keep: bool = True) -> Sequence | None:
        """A running request has ended; None if it does not run.

        Args:
            request_id: Its id.
            now_s: Time.
            keep: Whether others may find what it computed.
        """
        if (sequence := self._stop(request_id, now_s, keep=keep)) is not None:
            self._orphan_children(request_id)
        return sequence

    def release_children(self, request_id: int) -> None:
        """Who waited beside a request may run: its prompt is computed."""
        for child in self.forks.take(request_id):
            self._release(child, request_id)

    def _drop(self, request_id: int, now_s: float) -> bool:
        if (waiting := self.queue.get(request_id)) is not None:
            self.queue.remove(waiting)
            self.queue.end(waiting)
            return True
        if self.forks.remove(request_id) is not None:
            return True
        return self._stop(request_id, now_s, keep=True) is not None

    def _stop(self, request_id: int, now_s: float, *, keep: bool) -> Sequence | None:
        if (sequence := self.running.remove(request_id)) is not None:
            self.pool.release(request_id, now_s, keep=keep)
            self.queue.end(sequence)
        return sequence

    def _release(self, child: Sequence, parent_id: int) -> None:
        self.queue.add(child, queued_tokens=1)
        self.forks.note_released(child, parent_id)

    def _recall_children(self, request_id: int) -> list[Sequence]:
        """Takes released children out of the queue that have not forked yet."""
        waiting = [
            child
            for child in self.forks.take_released(request_id)
            if self.queue.get(child.request_id) is child and not child.preemptions
        ]
        for child in waiting:
            self.queue.remove(child)
            self.queue.end(child)
        return waiting

    def _orphan_children(self, request_id: int) -> None:
        """A parent is gone: the first child computes the prompt, the others wait for that."""
        children = [*self._recall_children(request_id), *self.forks.take(request_id)]
        for child in children:
            child.parent_id = None if child is children[0] else children[0].request_id
            self.add(child)
