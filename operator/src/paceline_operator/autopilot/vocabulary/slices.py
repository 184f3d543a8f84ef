"""Growth of single pods, put together into slices of the fleet's time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import replace

from paceline_operator.autopilot.vocabulary.window import (
    Counter,
    Histogram,
    Latency,
    Window,
    kept_once,
    merge,
)

HISTORY_S = 300.0
SHARES_KEPT_S = 75.0
"""Slices that ended so long ago still tell pods apart: the longest trial and a scrape more."""
ARRIVALS = (
    Counter.REQUESTS_RECEIVED,
    Counter.PROMPT_TOKENS_RECEIVED,
    Counter.BATCH_TOKENS_RECEIVED,
)


class Slices:
    """The last 300 s of a fleet, one slice for each round that brought growth.

    A pod that missed rounds brings the growth of all of them at once. What it received is
    spread evenly over that time, or a missed round would look like a surge of demand;
    everything else is no rate and stays where it was learned.
    """

    def __init__(self) -> None:
        self._slices: deque[Window] = deque()

    def append(self, grown: Iterable[Window], now_s: float) -> tuple[Window, ...]:
        """Adds a round and returns all slices, oldest first.

        Args:
            grown: Growth of each pod that answered, from its answer before to now.
            now_s: End of the round.
        """
        parts = list(grown)
        if parts:
            start_s = self._start_s(parts)
            spread = [self._spread(part, start_s) for part in parts]
            self._slices.append(_compact(replace(merge(spread), start_s=start_s, end_s=now_s)))
            self._forget_shares(now_s - SHARES_KEPT_S)
        while self._slices and self._slices[0].end_s <= now_s - HISTORY_S:
            self._slices.popleft()
        return tuple(self._slices)

    def _forget_shares(self, before_s: float) -> None:
        for place, old in enumerate(self._slices):
            if old.end_s > before_s:
                return
            if old.pods:
                self._slices[place] = replace(old, pods={})

    def _start_s(self, parts: list[Window]) -> float:
        """Rounds that brought nothing at all belong to the slice that ends them."""
        first_s = min(part.start_s for part in parts)
        return max(first_s, self._slices[-1].end_s) if self._slices else first_s

    def _spread(self, part: Window, start_s: float) -> Window:
        """Moves arrivals from before the slice to the slices of then; returns the rest."""
        moved = 0.0
        for place, old in enumerate(self._slices):
            overlap_s = min(old.end_s, start_s) - max(old.start_s, part.start_s)
            if overlap_s > 0:
                share = overlap_s / part.length_s
                self._slices[place] = _received(old, part, share)
                moved += share
        # Shares are rounded: no more than all of it can be taken away.
        return _received(part, part, -min(1.0, moved)) if moved else part


def _received(window: Window, part: Window, share: float) -> Window:
    """The window with a share of another's arrivals added."""
    counters = dict(window.counters)
    for counter in ARRIVALS:
        if part.count(counter):
            counters[counter] = window.count(counter) + share * part.count(counter)
    return replace(window, counters=counters)


def _compact(window: Window) -> Window:
    """The same in less memory: slices are what an operator of many fleets holds most of."""
    steps = {kind: moments for kind, moments in window.steps.items() if moments.count}
    counters = {role: count for role, count in window.counters.items() if count}
    histograms, batch = _compacted(window.histograms), _compacted(window.batch)
    return replace(window, steps=steps, counters=counters, histograms=histograms, batch=batch)


def _compacted(histograms: Mapping[Latency, Histogram]) -> dict[Latency, Histogram]:
    return {
        role: Histogram(found.edges, tuple(map(kept_once, found.counts)), found.total)
        for role, found in histograms.items()
        if any(found.counts)
    }
