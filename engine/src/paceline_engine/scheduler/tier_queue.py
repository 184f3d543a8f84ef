"""What waits in one tier: due requests first, then tenants by share."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Final

from paceline_engine.scheduler.priority_map import PriorityMap
from paceline_engine.scheduler.sequence import Sequence
from paceline_engine.scheduler.share import Share

UNSAID_DEADLINE_SHARE: Final = 0.1
"""A request that names no deadline counts as one whose deadline is so much of its maximum wait."""

Place = tuple[float, int]
"""Deadline, then arrival: the order among requests that are otherwise equal."""


def place(sequence: Sequence) -> Place:
    """Where a request stands among its equals; preemption does not change it.

    A deadline gains no more than the one that stands for none: who names the nearest still
    comes after all without one that came so long before.
    """
    ticket = sequence.ticket
    deadline_s = ticket.deadline_s
    if not isfinite(deadline_s):
        max_wait_s = ticket.due_s - ticket.received_s
        deadline_s = ticket.received_s + UNSAID_DEADLINE_SHARE * max_wait_s
    return deadline_s, ticket.arrival


class _Tenant:
    def __init__(self, weight: float) -> None:
        self.share = Share(weight)
        self.waiting: PriorityMap[Sequence, Place] = PriorityMap()
        self.alive = 0  # requests that wait or run
        self.num_aside = 0  # that wait but may not come in now


class TierQueue:
    """Waiting requests of one tier, and what its tenants have been served.

    A tenant is known while it has requests, and afterwards until the others have caught up
    with what it was served: forgetting it then changes nothing.

    Args:
        weights: Weight of each tenant that has another than 1.
    """

    def __init__(self, weights: Mapping[str, float]) -> None:
        self.tokens = 0
        self._weights = weights
        self._tenants: dict[str, _Tenant] = {}
        self._order: PriorityMap[str, tuple[float, float, int]] = PriorityMap()
        self._gone: PriorityMap[str, tuple[float]] = PriorityMap()
        self._due: PriorityMap[Sequence, tuple[float, int]] = PriorityMap()
        self._num_waiting = 0
        self._tag = 0.0
        self._last: str | None = None  # whose last waiting request was taken out last

    def __len__(self) -> int:
        return self._num_waiting

    @property
    def num_tenants(self) -> int:
        """Tenants remembered."""
        return len(self._tenants)

    def add(self, sequence: Sequence) -> None:
        """Queues a new request."""
        tenant = self._enter(sequence)
        tenant.alive += 1

    def resume(self, sequence: Sequence) -> None:
        """Queues a preempted request at its old place in its tenant's queue."""
        self._enter(sequence)

    def head(self, now_s: float) -> Sequence | None:
        """Whose turn it is in this tier."""
        if (due := self._due.first()) is not None and due[0][0] <= now_s:
            return due[1]
        if (served_least := self._order.first()) is None:
            return None
        first = self._tenants[served_least[1]].waiting.first()
        return None if first is None else first[1]

    def remove(self, sequence: Sequence) -> None:
        """Takes a waiting request out, to run it or to drop it."""
        self.tokens -= sequence.queued_tokens
        self._num_waiting -= 1
        self._leave(sequence)

    def set_aside(self, sequence: Sequence) -> None:
        """Lets all others overtake a waiting request; it is counted as before."""
        self._leave(sequence).num_aside += 1

    def bring_back(self, sequence: Sequence) -> None:
        """Gives a request that was set aside its place back."""
        self._tenants[sequence.request.tenant].num_aside -= 1
        self._stand(sequence)

    def share(self, tenant: str) -> Share:
        """What the tenant of a waiting or running request was served."""
        return self._tenants[tenant].share

    def charge(self, tenant: str, tokens: float) -> Share:
        """Counts tokens as served to a tenant that has a request."""
        known = self._tenants[tenant]
        known.share.charge(tokens)
        self._reorder(tenant, known)
        return known.share

    def end(self, tenant: str) -> None:
        """A request of the tenant, waiting or running before, has ended."""
        known = self._tenants[tenant]
        known.alive -= 1
        if not known.alive:
            self._gone.set(tenant, (known.share.tag,))
        self._forget()

    def _enter(self, sequence: Sequence) -> _Tenant:
        tenant = self._join(sequence.request.tenant)
        self._num_waiting += 1
        self.tokens += sequence.queued_tokens
        self._stand(sequence)
        return tenant

    def _stand(self, sequence: Sequence) -> None:
        name = sequence.request.tenant
        tenant = self._tenants[name]
        tenant.waiting.set(sequence, place(sequence))
        self._due.set(sequence, (sequence.ticket.due_s, sequence.ticket.arrival))
        self._reorder(name, tenant)

    def _leave(self, sequence: Sequence) -> _Tenant:
        self._due.remove(sequence)
        name = sequence.request.tenant
        tenant = self._tenants[name]
        self._advance()
        tenant.waiting.remove(sequence)
        self._reorder(name, tenant)
        return tenant

    def _join(self, name: str) -> _Tenant:
        tenant = self._tenants.get(name)
        if tenant is None:
            tenant = self._tenants[name] = _Tenant(self._weights.get(name, 1.0))
        self._gone.remove(name)
        if not (tenant.waiting or tenant.num_aside):
            self._advance()
            tenant.share.join(self._tag)
        return tenant

    def _advance(self) -> None:
        """The tier's virtual time, never going back.

        It is the tag of the waiting tenant served least; where none waits, of the one that
        waited last.
        """
        if (first := self._order.first()) is not None:
            self._tag = max(self._tag, first[0][0])
        elif self._last in self._tenants:
            self._tag = max(self._tag, self._tenants[self._last].share.tag)

    def _reorder(self, name: str, tenant: _Tenant) -> None:
        if (first := tenant.waiting.first()) is not None:
            self._order.set(name, (tenant.share.tag, *first[0]))
        elif self._order.remove(name):
            self._last = name

    def _forget(self) -> None:
        self._advance()
        while (gone := self._gone.first()) is not None and gone[0][0] <= self._tag:
            self._gone.remove(gone[1])
            del self._tenants[gone[1]]
