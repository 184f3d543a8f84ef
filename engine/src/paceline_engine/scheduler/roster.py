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
        parent_id = sequence.request.parent_id
        parent = None if parent_id is None else self.find(parent_id)
        if parent is None or parent.has_prompt:
            self._enqueue(sequence, parent)
        else:
            self.forks.add(sequence, parent.request_id)

    def abort(self, request_ids: Iterable[int], now_s: float) -> None:
        """Drops requests wherever they are; unknown ids are ignored."""
        for request_id in request_ids:
            if (waiting := self.queue.get(request_id)) is not None:
                self.queue.remove(waiting)
                self.queue.end(waiting)
                self.part(request_id)
            elif self.forks.remove(request_id) is not None:
                self.part(request_id)
            else:
                self.end(request_id, now_s)

    def preempt(self, sequence: Sequence, now_s: float) -> None:
        """Takes a running request's blocks back and queues it."""
        self.running.remove(sequence.request_id)
        self.pool.release(sequence.request_id, now_s)
        sequence.preempt()
        self.queue.resume(sequence)

    def end(self, request_id: int, now_s: float, *, keep: bool = True) -> Sequence | None:
        """A running request has ended; None if it does not run.

        Args:
            request_id: Its id.
            now_s: Time.
            keep: Whether others may find what it computed.
        """
        if (sequence := self.running.remove(request_id)) is None:
            return None
        self.pool.release(request_id, now_s, keep=keep)
        self.queue.end(sequence)
        self.part(request_id)
        return sequence

    def part(self, request_id: int, parent: Sequence | None = None) -> None:
        """Who waited beside a request may run: it has its prompt, or else is gone."""
        for child in self.forks.take(request_id):
            self._enqueue(child, parent)

    def _enqueue(self, sequence: Sequence, parent: Sequence | None) -> None:
        can_fork = parent is not None and may_fork(sequence.request, parent.request)
        self.queue.add(sequence, queued_tokens=1 if can_fork else None)
