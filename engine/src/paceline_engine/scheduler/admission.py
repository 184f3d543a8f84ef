"""Who of the waiting gets in: seat, blocks, and what interactive requests may push aside."""

from __future__ import annotations

from paceline_engine.kvcache.block_pool import BlockPool
from paceline_engine.request import Tier
from paceline_engine.scheduler.fair_queue import FairQueue
from paceline_engine.scheduler.forks import may_fork
from paceline_engine.scheduler.limits import LiveLimits
from paceline_engine.scheduler.plan import StepPlan
from paceline_engine.scheduler.running import RunningSet, is_protected
from paceline_engine.scheduler.sequence import Sequence


class Admission:
    """Moves requests from the queue to the running set, strictly in the queue's order.

    Blocks for all known text are taken on the way in, so prefill never preempts. Beyond them
    a block stays free for each runner that may still grow, so that a full pool does not admit
    only to preempt; for a request that was preempted before, a block more for each time, so
    that it does not come back too early again. Who was preempted as often as anyone may be
    gets in as long as all such ones can never need more than the pool; else it alone is set
    aside until that is so. Whoever passes it meanwhile can be preempted, and once it has its
    place back nobody gets in before it who stands behind it.

    Args:
        queue: Who waits.
        running: Who runs.
        pool: KV accounting.
        limits: The running cap.
    """

    def __init__(
        self, queue: FairQueue, running: RunningSet, pool: BlockPool, limits: LiveLimits
    ) -> None:
        self._queue = queue
        self._running = running
        self._pool = pool
        self._limits = limits
        self._refused: Sequence | None = None
        self._favoured: Sequence | None = None

    def victim(self, now_s: float) -> Sequence | None:
        """The batch request that yields to an interactive one that could not get in.

        Whatever it lacked, a seat or blocks, the decision is this one. Batch requests yield
        that came in while no interactive one wanted the place; to an interactive request that
        is due, all of them. Who is due itself is spared, as it would come back first. One
        victim a step is enough: the next step asks again. Until it is in, nobody else gets in
        whom the room would serve as well. While a lowered cap drains down nobody yields.
        """
        self._recall()
        blocked, self._refused, self._favoured = self._refused, None, None
        if blocked is None or not self._may_go(blocked, now_s):
            return None
        if len(self._running) > self._limits.max_num_running_seqs:
            return None
        is_due = blocked.ticket.is_due(now_s)
        victims = [
            each
            for each in self._running.displaceable()
            if not each.ticket.is_due(now_s) and (is_due or each.is_guest)
        ]
        if not victims or self._lacks_blocks(blocked, victims):
            return None
        self._favoured = blocked
        return victims[0]

    def next(self, plan: StepPlan, allowance: dict[Tier, int]) -> Sequence | None:
        """Admits the request whose turn it is; None if it has to wait.

        A batch request that does not fit holds up interactive ones for a bounded time.

        Args:
            plan: The step.
            allowance: Prefill tokens each tier may still take in it.
        """
        head = self._head(plan.now_s)
        if head is None or not (self.is_full or allowance[head.request.tier] > 0):
            return None
        if self._admits(head, plan):
            return head
        other = None if self.is_full else self._passing(head, plan.now_s)
        if other is None or allowance[Tier.INTERACTIVE] <= 0:
            return None
        return other if self._admits(other, plan) else None

    def _admits(self, sequence: Sequence, plan: StepPlan) -> bool:
        """Lets a request in, or remembers for whom others may have to yield.

        A step asks several times, with other allowances; what was not tried again still holds.
        """
        if not self.is_full and self._let_in(sequence, plan):
            return True
        if sequence.request.tier is Tier.INTERACTIVE:
            self._refused = sequence
        return False

    def _head(self, now_s: float) -> Sequence | None:
        """Whose turn it is: the queue's head, or for whom a request has just been displaced."""
        favoured = self._favoured
        if favoured is not None and self._queue.get(favoured.request_id) is favoured:
            return favoured
        return self._turn(now_s)

    def _turn(self, now_s: float, tier: Tier | None = None) -> Sequence | None:
        """Whose turn it is, in all or in a tier; setting aside who waits for protected ones."""
        queue = self._queue
        while head := queue.head(now_s) if tier is None else queue.head_of(tier, now_s):
            if not is_protected(head) or self._may_claim(head):
                return head
            queue.set_aside(head)
        return None

    def _recall(self) -> None:
        """Brings back who was set aside and need not wait for protected ones any more."""
        while (first := self._queue.set_aside_first()) and self._fits_beside_protected(first):
            self._queue.bring_back(first)

    def _may_claim(self, sequence: Sequence) -> bool:
        """Whether a protected request may run; whoever was set aside goes first."""
        first = self._queue.set_aside_first()
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
        themselves; once it has waited for twice its maximum everybody, or it would wait for
        ever for room that others take as soon as it is free.
        """
        if head.request.tier is not Tier.BATCH:
            return None
        other, ticket = self._turn(now_s, Tier.INTERACTIVE), head.ticket
        if other is None or not ticket.is_due(now_s):
            return other
        return other if other.ticket.is_due(now_s) and not ticket.is_late(now_s) else None

    @property
    def is_full(self) -> bool:
        """Whether every seat is taken."""
        return len(self._running) >= self._limits.max_num_running_seqs

    def _let_in(self, sequence: Sequence, plan: StepPlan) -> bool:
        now_s = plan.now_s
        cached = self._fork(sequence, plan)
        if cached is None:
            cached = self._enter(sequence, now_s)
        if cached is None:
            return False
        pool = self._pool
        self._queue.admit(sequence, now_s)
        sequence.admit(cached, pool.table(sequence.request_id), pool.block_size)
        sequence.is_guest = not self._queue.count(Tier.INTERACTIVE)
        self._running.add(sequence)
        return True

    def _enter(self, sequence: Sequence, now_s: float) -> int | None:
        """Takes blocks for all known text; returns the tokens found in the prefix cache."""
        pool, request = self._pool, sequence.request
        cached = pool.admit(
            request.request_id,
            sequence.known_ids,
            request.cache_scope,
            now_s,
            spare=self._spare_blocks(sequence),
            read_cache=not sequence.needs_whole_prompt,
            counts=not sequence.preemptions,
        )
        if cached is None:
            return None
        if sequence.cached_tokens is None:
            sequence.cached_tokens = min(cached, sequence.num_prompt_tokens)
        return cached

    def _fork(self, child: Sequence, plan: StepPlan) -> int | None:
        """Shares the parent's prompt but for the last token, which is computed into a copy."""
        parent_id = child.parent_id
        parent = None if parent_id is None else self._running.get(parent_id)
        if parent is None or child.preemptions or not parent.has_prompt:
            return None
        if not may_fork(child.request, parent.request):
            return None
        pool, now_s, end = self._pool, plan.now_s, child.num_prompt_tokens
        spare = self._spare_blocks(child) + 1
        if not pool.fork(parent.request_id, child.request_id, child.known_ids, spare=spare):
            return None
        plan.copies.extend(pool.writable(child.request_id, end - 1, end, now_s) or ())
        child.cached_tokens = 0
        return end - 1

    def _lacks_blocks(self, sequence: Sequence, victims: list[Sequence]) -> bool:
        """Whether a request could not get in even with all the victims gone."""
        others = len(self._running) - len(victims)
        missing = self._pool.missing(
            sequence.request_id,
            sequence.known_ids,
            sequence.request.cache_scope,
            spare=others * _spare_each(sequence),
            read_cache=not sequence.needs_whole_prompt,
            without=[each.request_id for each in victims],
        )
        return missing > 0

    def _spare_blocks(self, sequence: Sequence) -> int:
        """Blocks that must stay free for others to grow."""
        return len(self._running) * _spare_each(sequence)


def _spare_each(sequence: Sequence) -> int:
    """Blocks to leave free for each that runs; a protected request will not come back early."""
    return 1 if is_protected(sequence) else 1 + sequence.preemptions
