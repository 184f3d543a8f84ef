"""What was added to one pod's totals between two readings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from paceline_operator.autopilot.vocabulary.window import Histogram, Moments, SloCounts
from paceline_operator.metrics.exposition import Exposition, Totals

_K = TypeVar("_K")


def increase(before: Exposition, after: Exposition) -> Totals:
    """Growth of every total.

    A process that started anew, or any plain counter that fell, makes the whole of `after`
    the growth: everything it counts happened since.
    """
    if _restarted(before, after):
        return after.totals
    old, new = before.totals, after.totals
    return Totals(
        counters={k: v - old.counters.get(k, 0.0) for k, v in new.counters.items()},
        histograms={k: _histogram(old.histograms.get(k), v) for k, v in new.histograms.items()},
        batch={k: _histogram(old.batch.get(k), v) for k, v in new.batch.items()},
        steps={k: _moments(old.steps.get(k), v) for k, v in new.steps.items()},
        slo=_slo(old.slo, new.slo),
    )


def _restarted(before: Exposition, after: Exposition) -> bool:
    if before.started_s != after.started_s:
        return True
    old, new = before.totals.counters, after.totals.counters
    return any(value < old.get(key, 0.0) for key, value in new.items())


def _histogram(old: Histogram | None, new: Histogram) -> Histogram:
    if old is None or old.edges != new.edges:
        return new if old is None else Histogram()
    counts = tuple(max(0.0, b - a) for a, b in zip(old.counts, new.counts, strict=True))
    return Histogram(new.edges, counts, max(0.0, new.total - old.total))


def _moments(old: Moments | None, new: Moments) -> Moments:
    if old is None:
        return new
    return Moments(tuple(b - a for a, b in zip(old.sums, new.sums, strict=True)))


def _slo(old: Mapping[_K, SloCounts], new: Mapping[_K, SloCounts]) -> dict[_K, SloCounts]:
    none = SloCounts()
    return {
        key: SloCounts(
            max(0.0, counts.good - old.get(key, none).good),
            max(0.0, counts.bad - old.get(key, none).bad),
        )
        for key, counts in new.items()
    }
