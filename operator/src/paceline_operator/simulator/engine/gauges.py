"""What an engine last told of itself: as of the end of a step, before the next was decided."""

from __future__ import annotations

from paceline_operator.simulator.engine.scheduler import Scheduler
from paceline_operator.simulator.engine.sequence import BATCH_TIER, INTERACTIVE_TIER


class Gauges:
    """Numbers of one moment.

    Attributes:
        running: Requests that hold KV blocks.
        waiting: Requests that wait, of both tiers.
        batch_waiting: Those of the batch tier.
        waiting_tokens: What waiting interactive requests must compute before their next token.
        held_blocks: KV blocks in use.
    """

    __slots__ = ("batch_waiting", "held_blocks", "running", "waiting", "waiting_tokens")

    def __init__(self) -> None:
        self.running = self.waiting = self.batch_waiting = 0
        self.waiting_tokens = self.held_blocks = 0

    def read(self, scheduler: Scheduler) -> None:
        """Tells how things are now."""
        waiting = scheduler.waiting
        self.running = len(scheduler.running)
        self.batch_waiting = waiting.count[BATCH_TIER]
        self.waiting = waiting.count[INTERACTIVE_TIER] + self.batch_waiting
        self.waiting_tokens = waiting.tokens[INTERACTIVE_TIER]
        self.held_blocks = scheduler.pool.held
