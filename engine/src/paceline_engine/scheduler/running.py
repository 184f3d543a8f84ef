"""Who holds KV blocks, in the order in which they are served and, from the end, yield them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from paceline_engine.request import Tier
from paceline_engine.scheduler.sequence import Sequence

MAX_PREEMPTIONS = 4
"""After so many a request is protected: it is never a victim. So no request is preempted more
often. All protected ones together can never need more than the pool, so each finds the blocks
it lacks with others, who run in what it does not need yet."""


def is_protected(sequence: Sequence) -> bool:
    """Whether a request may no longer be preempted once it runs again."""
    return sequence.preemptions >= MAX_PREEMPTIONS


class RunningSet:
    """Running requests: protected ones, then interactive, then batch; each by admission.

    A victim is always the last one that is not protected: batch before interactive, then the
    latest admitted. Whoever is served before it is not harmed by what it needs.

    Attributes:
        get: Request id -> the running request of that id, else None. Asked hundreds of times
            a step, hence the dictionary's own.
    """

    def __init__(self) -> None:
        self._all: dict[int, Sequence] = {}
        self.get = self._all.get
        self._protected: dict[int, Sequence] = {}
        self._tiers: dict[Tier, dict[int, Sequence]] = {tier: {} for tier in Tier}
        self._num_batch = 0

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Sequence]:
        tiers = self._tiers
        return chain(
            self._protected.values(),
            tiers[Tier.INTERACTIVE].values(),
            tiers[Tier.BATCH].values(),
        )

    @property
    def protected(self) -> Iterable[Sequence]:
        """Those that lose no block any more."""
        return self._protected.values()

    @property
    def num_batch(self) -> int:
        """Those of the batch tier."""
        return self._num_batch

    def add(self, sequence: Sequence) -> None:
        """Admits a request as the latest."""
        self._all[sequence.request_id] = self._group(sequence)[sequence.request_id] = sequence
        self._num_batch += sequence.request.tier is Tier.BATCH

    def remove(self, request_id: int) -> Sequence | None:
        """Takes a request out; None if it does not run."""
        if (sequence := self._all.pop(request_id, None)) is None:
            return None
        del self._group(sequence)[request_id]
        self._num_batch -= sequence.request.tier is Tier.BATCH
        return sequence

    def victim(self) -> Sequence | None:
        """Who yields its blocks first; None if all are protected."""
        for tier in (Tier.BATCH, Tier.INTERACTIVE):
            if group := self._tiers[tier]:
                return next(reversed(group.values()))
        return None

    def displaceable(self) -> Iterator[Sequence]:
        """Batch requests that an interactive one may displace, the first victim first."""
        return reversed(self._tiers[Tier.BATCH].values())

    def _group(self, sequence: Sequence) -> dict[int, Sequence]:
        return self._protected if is_protected(sequence) else self._tiers[sequence.request.tier]
