"""All waiting requests and the order in which they may run.

Whose turn it is between the tiers: the one served least for its weight, interactive at a tie.
So each keeps its share, however old the other's backlog is. But nobody starves: a tier of
which nothing got in for the interactive tier's maximum wait may send one request that is due.

In a tier, by the first rule that decides:

1. Who has waited for the tier's maximum is due and nothing of the tier overtakes it: of those,
   the one due first.
2. The tenant served least for its weight.
3. The nearest deadline, then arrival, which preemption does not change. None counts as a tenth
   of the tier's maximum wait, so that is what anyone can gain by naming one.

Each operation takes O(log n), whatever waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import inf

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
        self._aside: PriorityMap[Sequence, tuple[int]] = PriorityMap()
        self._patience_s = config.interactive_max_wait_s
        self._admitted_s = dict.fromkeys(Tier, -inf)

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
        self.bring_back(sequence)
        del self._waiting[sequence.request_id]
        self._tiers[sequence.request.tier].remove(sequence)

    def set_aside(self, sequence: Sequence) -> None:
        """Lets all others overtake a waiting request, due or not, until it is brought back."""
        self._aside.set(sequence, (sequence.ticket.arrival,))
        self._tiers[sequence.request.tier].set_aside(sequence)

    def all_set_aside(self) -> Iterable[Sequence]:
        """Who is set aside, in no order."""
        return self._aside

    def set_aside_first(self) -> Sequence | None:
        """Who of those set aside came first."""
        first = self._aside.first()
        return first[1] if first else None

    def bring_back(self, sequence: Sequence) -> None:
        """Gives a request that was set aside its place back; nothing happens to others."""
        if self._aside.remove(sequence):
            self._tiers[sequence.request.tier].bring_back(sequence)

    def head(self, now_s: float) -> Sequence | None:
        """Who runs next; None if nobody waits."""
        first, second = Tier.INTERACTIVE, Tier.BATCH
        if self._shares[second].tag < self._shares[first].tag:
            first, second = second, first
        mine, other = self.head_of(first, now_s), self.head_of(second, now_s)
        if mine is None:
            return other
        if other is None or not self._is_overdue(other, now_s):
            return mine
        return mine if second is Tier.INTERACTIVE and mine.ticket.is_late(now_s) else other

    def head_of(self, tier: Tier, now_s: float) -> Sequence | None:
        """Who would run next if only this tier waited."""
        return self._tiers[tier].head(now_s)

    def share(self, tier: Tier, tenant: str) -> Share:
        """What a tenant that has a request was served in a tier."""
        return self._tiers[tier].share(tenant)

    def split(self, tokens: int) -> dict[Tier, int]:
        """Divides a step's tokens between tiers that both want them."""
        interactive, batch = Tier.INTERACTIVE, Tier.BATCH
        mine, rest = split(tokens, self._shares[interactive], self._shares[batch])
        return {interactive: mine, batch: rest}

    def admit(self, sequence: Sequence, now_s: float) -> None:
        """Takes a waiting request out to run it, and charges its first decodes."""
        self.remove(sequence)
        request = sequence.request
        self._admitted_s[request.tier] = now_s
        self.charge_ahead(sequence, sequence.prepay())

    def charge(self, tier: Tier, tenant: str, tokens: float) -> None:
        """Counts tokens as served to a tenant that has a request, and to its tier."""
        if tokens:
            self._shares[tier].charge(tokens)
            self._tiers[tier].charge(tenant, tokens)

    def charge_ahead(self, sequence: Sequence, tokens: float) -> None:
        """Counts decode tokens as served before they are; `end` gives back what was not."""
        if tokens:
            tier, tenant = sequence.request.tier, sequence.request.tenant
            share, queue = self._shares[tier], self._tiers[tier]
            share.charge(tokens)
            of_tier, of_tenant = sequence.charged
            tenants = queue.charge(tenant, tokens)
            sequence.charged = share.note(of_tier, tokens), tenants.note(of_tenant, tokens)

    def end(self, sequence: Sequence) -> None:
        """A request that was running, or was just taken out, has ended: settles its account."""
        tier, tenant = sequence.request.tier, sequence.request.tenant
        queue, rest = self._tiers[tier], sequence.settle()
        if rest:
            of_tier, of_tenant = sequence.charged
            share = self._shares[tier]
            share.charge(-min(rest, share.refundable(of_tier)))
            queue.charge(tenant, -min(rest, queue.share(tenant).refundable(of_tenant)))
        queue.end(tenant)

    def _is_overdue(self, sequence: Sequence, now_s: float) -> bool:
        """Whether a request may go before the other tier's, whatever the shares say."""
        waited_s = now_s - self._admitted_s[sequence.request.tier]
        return sequence.ticket.is_due(now_s) and waited_s > self._patience_s

    def _enter(self, sequence: Sequence) -> None:
        tier = sequence.request.tier
        if not self._tiers[tier]:
            other = Tier.BATCH if tier is Tier.INTERACTIVE else Tier.INTERACTIVE
            self._shares[tier].join(self._shares[other].tag)
        self._waiting[sequence.request_id] = sequence
