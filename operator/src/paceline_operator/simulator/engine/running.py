"""Who holds KV blocks, in the order in which they are served and, from the end, yield them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from paceline_operator.simulator.engine.sequence import (
    BATCH_TIER,
    INTERACTIVE_TIER,
    Sequence,
)

_Group = dict[Sequence, None]


class RunningSet:
    """Running requests: protected ones, then interactive, then batch; each by admission.

    A victim is always the last one that is not protected.

    Attributes:
        count: Running requests by tier.
        prefilling: Those with known text to compute, in no order.
    """

    def __init__(self) -> None:
        self.count = [0, 0]
        self.prefilling: _Group = {}
        self._serial = 0
        self._protected: _Group = {}
        self._tiers: tuple[_Group, _Group] = ({}, {})

    def __len__(self) -> int:
        return self.count[INTERACTIVE_TIER] + self.count[BATCH_TIER]

    def __iter__(self) -> Iterator[Sequence]:
        return chain(self._protected, *self._tiers)

    @property
    def protected(self) -> Iterable[Sequence]:
        """Those that lose no block any more."""
        return self._protected

    def add(self, sequence: Sequence, cached: int) -> None:
        """Lets a request in as the latest, with so many tokens found in the cache."""
        self._serial += 1
        sequence.let_in(cached, self._serial)
        self._group(sequence)[sequence] = self.prefilling[sequence] = None
        self.count[sequence.tier] += 1

    def remove(self, sequence: Sequence) -> None:
        """Takes a request out."""
        sequence.is_running = False
        self.prefilling.pop(sequence, None)
        del self._group(sequence)[sequence]
        self.count[sequence.tier] -= 1

    def victim(self) -> Sequence | None:
        """Who yields its blocks first; None if all are protected."""
        for tier in (BATCH_TIER, INTERACTIVE_TIER):
            if group := self._tiers[tier]:
                return next(reversed(group))
        return None

    def displaceable(self) -> Iterator[Sequence]:
        """Batch requests that an interactive one may displace, the first victim first."""
        return reversed(self._tiers[BATCH_TIER])

    def _group(self, sequence: Sequence) -> _Group:
        return self._protected if sequence.is_protected else self._tiers[sequence.tier]
