"""Who of the waiting gets in: seat, blocks, and what interactive requests may push aside."""

from __future__ import annotations

from paceline_operator.simulator.engine.block_pool import BlockPool
from paceline_operator.simulator.engine.decodes import Decodes
from paceline_operator.simulator.engine.limits import LiveLimits
from paceline_operator.simulator.engine.plan import StepPlan
from paceline_operator.simulator.engine.running import RunningSet
from paceline_operator.simulator.engine.sequence import (
    BATCH_TIER,
    INTERACTIVE_TIER,
    Sequence,
)
from paceline_operator.simulator.engine.waiting import Waiting


class Admission:
    """Moves requests from the queue to the running set, strictly in the queue's order.

    Blocks for all known text are taken on the way in. Beyond them a block stays free for each
    that runs; for a request that was preempted before, a block more for each time. Who was
    preempted as often as anyone may be gets in as long as all such ones can never need more
    than the pool; else it alone is set aside until that is so.

    Args:
        waiting: Who waits.
        running: Who runs.
        decodes: Where those that decode stand.
        pool: KV accounting.
        limits: The running cap.
    """

    def __init__(
        self,
        waiting: Waiting,
        running: RunningSet,
        decodes: Decodes,
        pool: BlockPool,
        limits: LiveLimits,
    ) -> None:
        self._waiting = waiting
        self._running = running
        self._decodes = decodes
        self._pool = pool
        self._limits = limits
        self._refused: Sequence | None = None
        self._favoured: Sequence | None = None

    @property
    def is_full(self) -> bool:
        """Whether every seat is taken."""
        return len(self._running) >= self._limits.running_cap

    @property
    def is_settled(self) -> bool:
        """Whether the next step would let in and displace as few as this one, which was nobody.

        As long as nobody comes or goes, that is: blocks only get fewer, and who waits for a
        place is decided between tiers only where both are there.
        """
        waiting, running = self._waiting.count, self._running.count
        if not waiting[INTERACTIVE_TIER] and not waiting[BATCH_TIER]:
            return True
        if self._favoured is not None or self._waiting.first_aside() is not None:
            return False
        return not waiting[INTERACTIVE_TIER] or not (waiting[BATCH_TIER] or running[BATCH_TIER])

    def victim(self, now_s: float) -> Sequence | None:
        """The batch request that yields to an interactive one that could not get in.

        Batch requests yield that came in while no interactive one wanted the place; to an
        interactive request that is due, all of them. Who is due itself is spared. While a
        lowered cap drains down nobody yields.
        """
        self._recall()
        blocked, self._refused, self._favoured = self._refused, None, None
        if blocked is None or not self._may_go(blocked, now_s):
            return None
        if len(self._running) > self._limits.running_cap:
            return None
        is_due = blocked.due_s <= now_s
        victims = [
            each
            for each in self._running.displaceable()
            if each.due_s > now_s and (is_due or each.is_guest)
        ]
        if not victims or self._lacks_blocks(blocked, victims):
            return None
        self._favoured = blocked
        return victims[0]

    def next(self, plan: StepPlan, allowance: list[int]) -> Sequence | None:
        """Lets in the request whose turn it is; None if it has to wait.

        Args:
            plan: The step.
            allowance: Prefill tokens that each tier may still take in it.
        """
        head = self._head(plan.now_s)
        if head is None or not (self.is_full or allowance[head.tier] > 0):
            return None
        if self._admits(head, plan):
            return head
        other = None if self.is_full else self._passing(head, plan.now_s)
        if other is None or allowance[INTERACTIVE_TIER] <= 0:
            return None
        return other if self._admits(other, plan) else None

    def _admits(self, sequence: Sequence, plan: StepPlan) -> bool:
        """Lets a request in, or remembers for whom others may have to yield."""
        if not self.is_full and self._let_in(sequence, plan.now_s):
            return True
        if sequence.tier == INTERACTIVE_TIER:
            self._refused = sequence
        return False

    def _head(self, now_s: float) -> Sequence | None:
        """Whose turn it is: the queue's head, or for whom a request has just been displaced."""
        favoured = self._favoured
        if favoured is not None and favoured.is_waiting:
            return favoured
        return self._turn(now_s)

    def _turn(self, now_s: float, tier: int | None = None) -> Sequence | None:
        """Whose turn it is, in all or in a tier; sets aside who waits for protected ones."""
        waiting = self._waiting
        while head := waiting.head(now_s) if tier is None else waiting.head_of(tier):
            if not head.is_protected or self._may_claim(head):
                return head
            waiting.set_aside(head)
        return None

    def _recall(self) -> None:
        """Brings back who was set aside and need not wait for protected ones any more."""
        while (first := self._waiting.first_aside()) and self._fits_beside_protected(first):
            self._waiting.bring_back(first)

    def _may_claim(self, sequence: Sequence) -> bool:
        """Whether a protected request may run; whoever was set aside goes first."""
        first = self._waiting.first_aside()
        return first is None and self._fits_beside_protected(sequence)

    def _fits_beside_protected(self, sequence: Sequence) -> bool:
        """Whether it and the protected ones that run can never need more than there is."""
        blocks_for = self._pool.blocks_for
        claimed = sum(blocks_for(each.max_total) for each in self._running.protected)
        return claimed + blocks_for(sequence.max_total) <= self._pool.num_blocks

    def _may_go(self, sequence: Sequence, now_s: float) -> bool:
        """Whether it is still a waiting request's turn, or it may go past the head."""
        head = self._turn(now_s)
        return head is not None and (
            sequence is head or (not self.is_full and sequence is self._passing(head, now_s))
        )

    def _passing(self, head: Sequence, now_s: float) -> Sequence | None:
        """The interactive request that goes past the head, which does not fit.

        Before it is due a batch request holds up nobody; from then on those that are not due
        themselves; once it has waited for twice its maximum everybody.
        """
        if head.tier == INTERACTIVE_TIER:
            return None
        other = self._turn(now_s, INTERACTIVE_TIER)
        if other is None or head.due_s > now_s:
            return other
        return other if other.due_s <= now_s < head.late_s else None

    def _let_in(self, sequence: Sequence, now_s: float) -> bool:
        cached = self._pool.admit(sequence, len(self._running) * _spare_each(sequence))
        if cached is None:
            return False
        if not sequence.preemptions:
            sequence.served.cached_tokens = cached
        self._waiting.let_in(sequence, now_s)
        sequence.is_guest = not self._waiting.count[INTERACTIVE_TIER]
        self._running.add(sequence, cached)
        return True

    def _lacks_blocks(self, sequence: Sequence, victims: list[Sequence]) -> bool:
        """Whether a request could not get in even with all the victims gone."""
        for each in victims:
            if each.is_decoding:
                self._decodes.locate(each)
        spare = (len(self._running) - len(victims)) * _spare_each(sequence)
        return self._pool.lacks(sequence, spare, victims)


def _spare_each(sequence: Sequence) -> int:
    """Blocks to leave free for each that runs; a protected request will not come back early."""
    return 1 if sequence.is_protected else 1 + sequence.preemptions
