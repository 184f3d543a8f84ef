"""What the two tiers were served for their weights, in virtual time.

The tag of a tier grows by tokens served over its weight; the smallest goes first, and who comes
back after a pause takes up the other's tag. Each running request is charged some decodes ahead
of what it was served. Between two charges nothing of a request need be known, and when the next
one falls due is known beforehand, so charges of decodes are made up for only when somebody asks
for a tag. Until a second tier has been seen nobody does, and none is made at all: only the
difference of the tags ever counts.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from paceline_operator.simulator.engine.sequence import TIERS, Sequence

DECODES_AHEAD = 128
"""Decodes that a running request is charged ahead."""
DECODES_AT_ONCE = 32
"""They are charged in such parts, or a little more where blocks are large."""
DECODES_LEFT = DECODES_AHEAD // 2
"""At least so many are charged ahead, however large blocks are."""


class Share:
    """What one tier has been served.

    Args:
        weight: Tokens it gets for each of a tier of weight 1 while both wait.

    Attributes:
        tag: Tokens charged over the weight.
        lifts: Times that it was put level with the other: what was charged ahead before is
            forgiven by that, and not given back.
    """

    __slots__ = ("lifts", "tag", "weight")

    def __init__(self, weight: float) -> None:
        self.weight = weight
        self.tag = 0.0
        self.lifts = 0

    def charge(self, tokens: float) -> None:
        """Counts tokens as served; a negative number gives tokens back."""
        self.tag += tokens / self.weight

    def join(self, tag: float) -> None:
        """Starts to compete with one that has this tag."""
        if tag > self.tag:
            self.tag = tag
            self.lifts += 1


class Shares:
    """Both tiers' accounts, and what their requests were charged ahead.

    Args:
        batch_weight: Of the batch tier; the interactive one's is 1.
        block_size: Tokens in a block: at a new one a request is looked at anyway.

    Attributes:
        is_live: Whether both tiers have been seen, so that tags count.
    """

    def __init__(self, batch_weight: float, block_size: int) -> None:
        self.is_live = False
        self._of = (Share(1.0), Share(batch_weight))
        self._block_size = block_size
        self._seen: set[int] = set()
        self._due: list[tuple[int, int, Sequence]] = []

    def batch_is_behind(self) -> bool:
        """Whether the batch tier was served less for its weight than the interactive one."""
        interactive, batch = self._of
        return batch.tag < interactive.tag

    def split(self, tokens: int) -> list[int]:
        """Divides tokens between both tiers so that their tags come as close as they can."""
        first, second = self._of
        lead = second.tag - first.tag + tokens / second.weight
        level = lead / (1 / first.weight + 1 / second.weight)
        mine = min(max(round(level), 0), tokens)
        return [mine, tokens - mine]

    def has_seen(self, tier: int) -> bool:
        """Whether a request of a tier has ever come."""
        return tier in self._seen

    def see(self, tier: int, running: Iterable[Sequence], steps: int) -> None:
        """The first request of a tier has come.

        Args:
            tier: Its tier.
            running: Who runs.
            steps: Steps that have run.
        """
        self._seen.add(tier)
        self.is_live = len(self._seen) == len(TIERS)
        if not self.is_live:
            return
        for each in running:
            if each.is_decoding:
                self.note(each, steps + each.offset)
                self.watch(each)

    def join(self, tier: int) -> None:
        """A tier of which nothing waited has somebody waiting."""
        self._of[tier].join(self._of[1 - tier].tag)

    def bill(self, sequence: Sequence, end: int) -> None:
        """Charges a tier for a chunk up to a position; recomputed tokens are free."""
        before = max(sequence.billed, sequence.computed)
        sequence.billed = max(before, end)
        self._of[sequence.tier].charge(max(0, min(end, sequence.prompt) - before))

    def prepay(self, sequence: Sequence) -> None:
        """Charges decodes ahead, so that a request let in is as far ahead as anyone is."""
        self._pay(sequence, max(sequence.billed, sequence.prompt))

    def watch(self, sequence: Sequence) -> None:
        """A request decodes: notes when it is to be charged again."""
        if self.is_live and (position := self._next_charge(sequence)) is not None:
            heapq.heappush(self._due, (position - sequence.offset, sequence.rank, sequence))

    def settle(self, steps: int) -> None:
        """Charges all decodes of the first so many steps that are to be charged."""
        due = self._due
        while due and due[0][0] < steps:
            step, rank, sequence = heapq.heappop(due)
            if sequence.is_decoding and sequence.rank == rank:
                self.note(sequence, step + sequence.offset + 1)
                self.watch(sequence)

    def note(self, sequence: Sequence, position: int) -> None:
        """Charges the decodes of a request before a position that are to be charged."""
        while (at := self._next_charge(sequence)) is not None and at < position:
            self._pay(sequence, at + 1)

    def note_if_live(self, sequence: Sequence) -> None:
        """Charges what a request that has come to its end has decoded."""
        if self.is_live:
            self.note(sequence, sequence.computed)

    def end(self, sequence: Sequence) -> None:
        """A request is over: gives back what it was charged ahead and never served."""
        served = max(sequence.billed, sequence.computed, sequence.prompt)
        rest, sequence.paid_until = max(0, sequence.paid_until - served), served
        share = self._of[sequence.tier]
        if rest and sequence.charged_lifts == share.lifts:
            share.charge(-min(rest, sequence.charged_tokens))

    def _pay(self, sequence: Sequence, served: int) -> None:
        """Charges ahead of a position, never more than the request may still draw."""
        most = min(served + DECODES_AHEAD, sequence.max_total - 1)
        tokens = max(0, most - sequence.paid_until)
        if not tokens:
            return
        sequence.paid_until += tokens
        share = self._of[sequence.tier]
        share.charge(tokens)
        if sequence.charged_lifts != share.lifts:
            sequence.charged_lifts, sequence.charged_tokens = share.lifts, 0.0
        sequence.charged_tokens += tokens

    def _next_charge(self, sequence: Sequence) -> int | None:
        """Position whose decode is charged for next; None once all it may draw is paid.

        It is looked at where it needs a block, and charged there if it is little ahead; and
        where it would be too little ahead before that.
        """
        paid, size = sequence.paid_until, self._block_size
        if paid >= sequence.max_total - 1:
            return None
        little = paid - (DECODES_AHEAD - DECODES_AT_ONCE) - 1
        return min(-(-little // size) * size, paid - DECODES_LEFT)
