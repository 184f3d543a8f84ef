"""What an engine last told of itself, as of the end of a step, and what was sent to it since."""

from __future__ import annotations

from paceline_operator.simulator.engine.scheduler import Scheduler
from paceline_operator.simulator.engine.sequence import (
    BATCH_TIER,
    INTERACTIVE_TIER,
    Sequence,
)


class Gauges:
    """Numbers of one moment.

    Attributes:
        running: Requests that hold KV blocks.
        waiting: Requests that wait, of both tiers, those that it has not taken yet too.
        batch_waiting: Those of the batch tier.
        waiting_tokens: What waiting interactive requests must compute before their next token.
        held_blocks: KV blocks in use.
    """

    __slots__ = ("_sent", "batch_waiting", "held_blocks", "running", "waiting", "waiting_tokens")

    def __init__(self) -> None:
        self.running = self.waiting = self.batch_waiting = 0
        self.waiting_tokens = self.held_blocks = 0
        self._sent: list[Sequence] = []

    def send(self, sequence: Sequence) -> None:
        """A request was sent: it waits, though the engine has not told of it yet."""
        self._sent.append(sequence)
        self._count(sequence)

    def take(self) -> None:
        """The engine takes what was sent, and will tell of it at the end of its next step."""
        self._sent.clear()

    def read(self, scheduler: Scheduler) -> None:
        """Tells how things are now."""
        waiting = scheduler.waiting
        self.running = len(scheduler.running)
        self.batch_waiting = waiting.count[BATCH_TIER]
        self.waiting = waiting.count[INTERACTIVE_TIER] + self.batch_waiting
        self.waiting_tokens = waiting.tokens[INTERACTIVE_TIER]
        self.held_blocks = scheduler.pool.held
        for sequence in self._sent:
            self._count(sequence)

    def _count(self, sequence: Sequence) -> None:
        self.waiting += 1
        if sequence.tier == BATCH_TIER:
            self.batch_waiting += 1
        else:
            self.waiting_tokens += sequence.prompt
