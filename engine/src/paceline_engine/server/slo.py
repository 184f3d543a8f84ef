"""Objectives pushed by the operator, and exact counts of samples that met them.

A request counts once per TTFT, TPOT and E2E objective: bad at the moment it becomes late
(also while it still waits), when it is refused, or when it ends late; good when it made
it. ITL counts gaps; a refused request adds none. A request is judged by the objectives of
its tier that were in force when it arrived.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from paceline_engine.request import Tier
from paceline_engine.server import metric_names as names
from paceline_engine.server.admin_wire import Slo, SloMetric

_Key = tuple[str, str, str, int, str]
"""Tier, objective, metric, target and outcome: samples that differ in one never mix."""


class Timer(Protocol):
    """A pending call."""

    def cancel(self) -> None:
        """Drops it; harmless after it ran."""
        ...


class CallLater(Protocol):
    """Runs a function after a delay, as `loop.call_later` does."""

    def __call__(self, delay: float, callback: Callable[[], None], /) -> Timer:
        """Schedules `callback` in `delay` seconds."""
        ...


class SloBoard(Collector):
    """The objectives in force and their counts since the start."""

    def __init__(self, model_name: str) -> None:
        self._model_name = model_name
        self._counts: dict[_Key, int] = {}
        self._slos: tuple[Slo, ...] = ()

    def of(self, tier: Tier) -> tuple[Slo, ...]:
        """Objectives that requests of a tier are judged by."""
        return tuple(slo for slo in self._slos if slo.tier == tier.value)

    def replace(self, slos: tuple[Slo, ...]) -> None:
        """Puts new objectives in force; counts of the old ones stay.

        Those of a tier that is not known here have no samples.
        """
        self._slos = slos
        for slo in slos:
            for outcome in names.SLO_OUTCOMES:
                self._counts.setdefault(_key(slo, outcome), 0)

    def count(self, slo: Slo, *, good: bool, samples: int = 1) -> None:
        """Adds one sample, or several."""
        key = _key(slo, "good" if good else "bad")
        self._counts[key] = self._counts.get(key, 0) + samples

    def refuse(self, tier: Tier, requests: int = 1) -> None:
        """Counts refused requests as bad for each objective of their tier that counts requests."""
        for slo in self.of(tier):
            if slo.metric is not SloMetric.ITL:
                self.count(slo, good=False, samples=requests)

    @override
    def collect(self) -> Iterator[Metric]:
        """Yields the family; called at each scrape."""
        family = names.SLO_SAMPLES
        metric = CounterMetricFamily(family.full_name, family.help, labels=family.labels)
        for (tier, slo, measured, target_ms, outcome), count in self._counts.items():
            labels = (self._model_name, tier, slo, measured, str(target_ms), outcome)
            metric.add_metric(labels, count)
        yield metric


def _key(slo: Slo, outcome: str) -> _Key:
    return (slo.tier, slo.name, slo.metric.value, slo.target_ms, outcome)


class Deadline:
    """One objective over one latency of one request; counts exactly once, or never."""

    __slots__ = ("_board", "_slo", "_timer", "late", "open")

    def __init__(self, board: SloBoard, slo: Slo, call_later: CallLater, elapsed_s: float) -> None:
        self._board = board
        self._slo = slo
        self.open = True
        self.late = False
        remaining_s = max(0.0, slo.target_ms / 1e3 - elapsed_s)
        self._timer = call_later(remaining_s, self.expire)

    def expire(self) -> None:
        """The target has passed: bad now, whatever comes."""
        if self.open:
            self._close(good=False)

    def meet(self, latency_s: float) -> None:
        """The awaited moment came after `latency_s`."""
        if self.open:
            self._close(good=latency_s * 1e3 <= self._slo.target_ms)

    def withdraw(self) -> None:
        """The request went away in time: no sample."""
        self.open = False
        self._timer.cancel()

    def _close(self, *, good: bool) -> None:
        self.withdraw()
        self.late = not good
        self._board.count(self._slo, good=good)


class GapTally:
    """Gaps of one request against one ITL objective."""

    __slots__ = ("_board", "_slo", "gaps", "late_gaps")

    def __init__(self, board: SloBoard, slo: Slo) -> None:
        self._board = board
        self._slo = slo
        self.gaps = 0
        self.late_gaps = 0

    def add(self, gap_s: float) -> None:
        """Counts a gap between two emissions."""
        late = gap_s * 1e3 > self._slo.target_ms
        self.gaps += 1
        self.late_gaps += late
        self._board.count(self._slo, good=not late)

    def add_if_late(self, gap_s: float) -> None:
        """Counts the gap that a request died in, if it already was late."""
        if gap_s * 1e3 > self._slo.target_ms:
            self.add(gap_s)

    @property
    def met(self) -> bool:
        """Whether the request's own percentile (nearest rank) is within the target."""
        needed = -(-self._slo.percentile * self.gaps // 100)
        return self.gaps - self.late_gaps >= needed
