"""Families about the engine loop: rendered at scrape time from the last snapshot.

A step costs a few additions here; no prometheus object is touched until someone scrapes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from typing_extensions import override

from paceline_engine.message import LoopState, StepStats
from paceline_engine.request import Tier
from paceline_engine.server import metric_names as names
from paceline_engine.server.metric_names import Family
from paceline_engine.server.moments import Moments


class StepSums:
    """What is added up over steps."""

    def __init__(self) -> None:
        self.moments = Moments()
        self.buckets = [0] * (len(names.STEP_EDGES) + 1)
        self.busy_s = 0.0
        self.at_budget = 0
        self.preemptions = 0

    def add(self, step: StepStats) -> None:
        """Adds one executed step."""
        self.moments.add(
            step.step_class,
            (
                step.prefill_tokens,
                step.decode_rows,
                step.resident_kv_tokens,
                step.chunk_context,
                step.duration_s,
            ),
        )
        self.buckets[bisect_left(names.STEP_EDGES, step.duration_s)] += 1
        self.busy_s += step.duration_s
        self.at_budget += step.at_budget
        self.preemptions += step.preemptions


class LoopCollector(Collector):
    """Collects gauges of the last `LoopState` and the sums over steps.

    Args:
        model_name: Value of the `model_name` label.
        state: Returns the last snapshot.
        revision: Returns the revision of the tunables in force.
        block_size: Tokens in a KV block.
        num_kv_blocks: Blocks in the pool.
    """

    def __init__(
        self,
        model_name: str,
        *,
        state: Callable[[], LoopState],
        revision: Callable[[], int],
        block_size: int,
        num_kv_blocks: int,
    ) -> None:
        self.steps = StepSums()
        self._model_name = model_name
        self._state = state
        self._revision = revision
        self._cache_shape = (str(block_size), str(num_kv_blocks))

    @override
    def collect(self) -> Iterator[Metric]:
        """Yields the families; called at each scrape."""
        state = self._state()
        yield from self._gauges(state)
        yield from self._counters(state)
        yield self._durations()
        yield self._moments()

    def _gauges(self, state: LoopState) -> Iterator[Metric]:
        blocks = {
            "free": state.kv_blocks_free,
            "held": state.kv_blocks_held,
            "cached": state.kv_blocks_cached,
        }
        total = sum(blocks.values())
        yield self._by_tier(names.REQUESTS_RUNNING, state.requests_running, state.batch_running)
        yield self._by_tier(names.REQUESTS_WAITING, state.requests_waiting, state.batch_waiting)
        yield self._by_tier(names.WAITING_TOKENS, state.waiting_tokens, state.batch_waiting_tokens)
        yield self._gauge(names.KV_USAGE, state.kv_blocks_held / total if total else 0.0)
        yield self._gauge(names.MAX_BATCHED_TOKENS, state.max_num_batched_tokens)
        yield self._gauge(names.MAX_RUNNING_SEQS, state.max_num_running_seqs)
        yield self._gauge(names.TUNABLES_REVISION, self._revision())
        kv_blocks = _gauge_family(names.KV_BLOCKS)
        for name, count in blocks.items():
            kv_blocks.add_metric((self._model_name, name), count)
        yield kv_blocks
        cache = _gauge_family(names.CACHE_CONFIG)
        cache.add_metric((self._model_name, *self._cache_shape), 1)
        yield cache

    def _counters(self, state: LoopState) -> Iterator[Metric]:
        steps = self.steps
        yield self._counter(names.STEPS_AT_BUDGET, steps.at_budget)
        yield self._counter(names.PREEMPTIONS, steps.preemptions)
        yield self._counter(names.BUSY_SECONDS, steps.busy_s)
        yield self._counter(names.PREFIX_QUERIES, state.prefix_queries_tokens)
        yield self._counter(names.PREFIX_HITS, state.prefix_hits_tokens)

    def _durations(self) -> Metric:
        family = names.STEP_DURATION
        metric = HistogramMetricFamily(family.full_name, family.help, labels=family.labels)
        cumulative = 0
        buckets: list[tuple[str, float]] = []
        for edge, count in zip((*names.STEP_EDGES, "+Inf"), self.steps.buckets, strict=True):
            cumulative += count
            buckets.append((str(edge), cumulative))
        metric.add_metric((self._model_name,), buckets, self.steps.busy_s)
        return metric

    def _moments(self) -> Metric:
        metric = _counter_family(names.STEP_MOMENTS)
        for step_class, term, value in self.steps.moments.items():
            metric.add_metric((self._model_name, step_class, term), value)
        return metric

    def _by_tier(self, family: Family, total: float, batch: float) -> Metric:
        metric = _gauge_family(family)
        metric.add_metric((self._model_name, Tier.INTERACTIVE.value), total - batch)
        metric.add_metric((self._model_name, Tier.BATCH.value), batch)
        return metric

    def _gauge(self, family: Family, value: float) -> Metric:
        metric = _gauge_family(family)
        metric.add_metric((self._model_name,), value)
        return metric

    def _counter(self, family: Family, value: float) -> Metric:
        metric = _counter_family(family)
        metric.add_metric((self._model_name,), value)
        return metric


def _gauge_family(family: Family) -> GaugeMetricFamily:
    return GaugeMetricFamily(family.full_name, family.help, labels=family.labels)


def _counter_family(family: Family) -> CounterMetricFamily:
    return CounterMetricFamily(family.full_name, family.help, labels=family.labels)
