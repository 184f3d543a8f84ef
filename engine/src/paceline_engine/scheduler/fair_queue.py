"""All waiting requests and the order in which they may run.

The order, by the first rule that decides:

1. Who has waited for its tier's maximum is due and cannot be overtaken: of those, the one due
   first. So a backlog older than the maximum is served first come, first served, whatever
   the weights say; admission control keeps it from growing that old.
2. The tier served least for its weight; interactive at a tie.
3. In a tier, preempted requests before new ones.
4. The tenant served least for its weight.
5. The nearest deadline, then arrival.

Each operation takes O(log n), whatever waits.
"""

from __future__ import annotations

from collections.abc import Iterator

from paceline_engine.config import EngineConfig
from paceline_engine.request import Tier
from paceline_engine.scheduler.priority_map import PriorityMap
from paceline_engine.scheduler.sequence import Sequence
from paceline_engine.scheduler.share import Share, split
from paceline_engine.scheduler.tier_queue import TierQueue


class FairQueue:
    """Waiting requests, and what tiers and tenants have been served.

    Args:
        config: Weights of tiers and tenants.
    """

    def __init__(self, config: EngineConfig) -> None:
        weights = dict(config.tenant_weights)
        self._tiers = {tier: TierQueue(weights) for tier in Tier}
        self._shares = {Tier.INTERACTIVE: Share(1.0), Tier.BATCH: Share(config.batch_weight)}
        self._waiting: dict[int, Sequence] = {}
        self._due: PriorityMap[Sequence, tuple[float, int]] = PriorityMap()

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[Sequence]:
        return iter(self._waiting.values())

    def get(self, request_id: int) -> Sequence | None:
        """The waiting request of that id."""
        return self._waiting.get(request_id)

    def count(self, tier: Tier) -> int:
        """Waiting requests of a tier."""
        return len(self._tiers[tier])

    def tokens(self, tier: Tier) -> int:
        """What they must compute before each draws its next token."""
        return self._tiers[tier].tokens

    def num_tenants(self, tier: Tier) -> int:
        """Tenants remembered in a tier."""
        return self._tiers[tier].num_tenants

    def add(self, sequence: Sequence, queued_tokens: int | None = None) -> None:
        """Queues a new request; it counts as what it must compute, or as told."""
        tier = sequence.request.tier
        sequence.queued_tokens = sequence.num_remaining if queued_tokens is None else queued_tokens
        self._enter(sequence)
        self._tiers[tier].add(sequence)

    def resume(self, sequence: Sequence) -> None:
        """Queues a preempted request."""
        sequence.queued_tokens = sequence.num_remaining
        self._enter(sequence)
        self._tiers[sequence.request.tier].resume(sequence)

    def remove(self, sequence: Sequence) -> None:
        """Takes a waiting request out, to run it or to drop it."""
        del self._waiting[sequence.request_id]
        self._due.remove(sequence)
        self._tiers[sequence.request.tier].remove(sequence)

    def head(self, now_s: float) -> Sequence | None:
        """Who runs next; None if nobody waits."""
        if (due := self._due.first()) is not None and due[0][0] <= now_s:
            return due[1]
        batch, interactive = self._tiers[Tier.BATCH], self._tiers[Tier.INTERACTIVE]
        if not batch or (interactive and self._favours_interactive):
            return interactive.head()
        return batch.head()

    def head_of(self, tier: Tier) -> Sequence | None:
        """Who would run next if only this tier waited, none of it due."""
        return self._tiers[tier].head()

    def split(self, tokens: int) -> dict[Tier, int]:
        """Divides a step's tokens between tiers that both want them."""
        interactive, batch = Tier.INTERACTIVE, Tier.BATCH
        mine, rest = split(tokens, self._shares[interactive], self._shares[batch])
        return {interactive: mine, batch: rest}

    def prepay(self, sequence: Sequence) -> None:
        """Charges the output that a request just taken out is expected to have."""
        request = sequence.request
        expected = self._tiers[request.tier].share(request.tenant).expected_output
        self.charge(request.tier, request.tenant, sequence.prepay(expected))

    def charge(self, tier: Tier, tenant: str, tokens: float) -> None:
        """Counts tokens as served to a tenant that has a request, and to its tier."""
        if tokens:
            self._shares[tier].charge(tokens)
            self._tiers[tier].charge(tenant, tokens)

    def end(self, sequence: Sequence) -> None:
        """A request that was running, or was just taken out, has ended: settles its account."""
        tier, tenant = sequence.request.tier, sequence.request.tenant
        if sequence.has_run:
            self._tiers[tier].share(tenant).learn_output(sequence.num_decoded)
        self.charge(tier, tenant, -sequence.settle())
        self._tiers[tier].end(tenant)

    @property
    def _favours_interactive(self) -> bool:
        return self._shares[Tier.INTERACTIVE].tag <= self._shares[Tier.BATCH].tag

    def _enter(self, sequence: Sequence) -> None:
        tier, ticket = sequence.request.tier, sequence.ticket
        if not self._tiers[tier]:
            other = Tier.BATCH if tier is Tier.INTERACTIVE else Tier.INTERACTIVE
            self._shares[tier].join(self._shares[other].tag)
        self._waiting[sequence.request_id] = sequence
        self._due.set(sequence, (ticket.due_s, ticket.arrival))
