"""All waiting requests and the order in which they may run.

Whose turn it is between the tiers: the one served least for its weight, interactive at a tie;
but a tier of which nothing got in for the interactive tier's maximum wait may send one request
that is due. In a tier it is who came first, which preemption does not change. All are one
tenant's here, so nothing else decides: who came first is due first as well.
"""

from __future__ import annotations

import heapq
from math import inf

from paceline_operator.simulator.engine.sequence import (
    BATCH_TIER,
    INTERACTIVE_TIER,
    Sequence,
)
from paceline_operator.simulator.engine.share import Shares

_Line = list[tuple[int, Sequence]]


class Waiting:
    """The queue.

    Args:
        shares: What the tiers were served.
        patience_s: The interactive tier's maximum wait.

    Attributes:
        count: Waiting requests by tier, those set aside too.
        tokens: What they must compute before each draws its next token, by tier.
    """

    def __init__(self, shares: Shares, patience_s: float) -> None:
        self.count = [0, 0]
        self.tokens = [0, 0]
        self._shares = shares
        self._patience_s = patience_s
        self._let_in_s = [-inf, -inf]
        self._lines: tuple[_Line, _Line] = ([], [])
        self._aside: _Line = []

    def __len__(self) -> int:
        return self.count[INTERACTIVE_TIER] + self.count[BATCH_TIER]

    def add(self, sequence: Sequence) -> None:
        """Queues a request, new or preempted, at its place."""
        tier = sequence.tier
        if not self.count[tier]:
            self._shares.join(tier)
        sequence.is_waiting = True
        sequence.queued_tokens = sequence.remaining
        self.count[tier] += 1
        self.tokens[tier] += sequence.queued_tokens
        heapq.heappush(self._lines[tier], (sequence.arrival, sequence))

    def remove(self, sequence: Sequence) -> None:
        """Takes a request out, to run it or to drop it."""
        sequence.is_waiting = sequence.is_aside = False
        self.count[sequence.tier] -= 1
        self.tokens[sequence.tier] -= sequence.queued_tokens

    def let_in(self, sequence: Sequence, now_s: float) -> None:
        """Takes a request out to run it, and charges its first decodes."""
        self.remove(sequence)
        self._let_in_s[sequence.tier] = now_s
        self._shares.prepay(sequence)

    def set_aside(self, sequence: Sequence) -> None:
        """Lets all others overtake a request, due or not, until it is brought back."""
        sequence.is_aside = True
        heapq.heappush(self._aside, (sequence.arrival, sequence))

    def bring_back(self, sequence: Sequence) -> None:
        """Gives a request that was set aside its place back."""
        sequence.is_aside = False
        heapq.heappush(self._lines[sequence.tier], (sequence.arrival, sequence))

    def first_aside(self) -> Sequence | None:
        """Who of those set aside came first."""
        aside = self._aside
        while aside and not aside[0][1].is_aside:
            heapq.heappop(aside)
        return aside[0][1] if aside else None

    def head(self, now_s: float) -> Sequence | None:
        """Who runs next; None if nobody waits but who is set aside."""
        interactive, batch = self.head_of(INTERACTIVE_TIER), self.head_of(BATCH_TIER)
        if interactive is None:
            return batch
        if batch is None:
            return interactive
        if self._shares.batch_is_behind():
            if not self._is_overdue(interactive, now_s) or batch.late_s <= now_s:
                return batch
            return interactive
        return batch if self._is_overdue(batch, now_s) else interactive

    def head_of(self, tier: int) -> Sequence | None:
        """Who would run next if only this tier waited."""
        line = self._lines[tier]
        while line and (line[0][1].is_aside or not line[0][1].is_waiting):
            heapq.heappop(line)
        return line[0][1] if line else None

    def _is_overdue(self, sequence: Sequence, now_s: float) -> bool:
        """Whether a request may go before the other tier's, whatever the shares say."""
        waited_s = now_s - self._let_in_s[sequence.tier]
        return sequence.due_s <= now_s and waited_s > self._patience_s
