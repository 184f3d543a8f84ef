"""Gauges of planned and measured memory, read when someone scrapes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from paceline_engine.server import metric_names as names
from paceline_engine.server.memory_watch import MemoryWatch

_Values: TypeAlias = dict[tuple[str, ...], int]
"""By the labels beside the model's name."""


class MemoryCollector(Collector):
    """Collects what `GET /admin/memory` answers.

    Args:
        model_name: Value of the `model_name` label.
        watch: Plan and measurement.
        engine_pid: Returns the process id of the engine.
    """

    def __init__(
        self, model_name: str, watch: MemoryWatch, engine_pid: Callable[[], int | None]
    ) -> None:
        self._model_name = model_name
        self._watch = watch
        self._engine_pid = engine_pid

    @override
    def collect(self) -> Iterator[Metric]:
        """Yields the families."""
        reading = self._watch.read(self._engine_pid())
        planned = self._watch.planned
        yield self._gauge(names.MEMORY_HEADROOM, {(): reading.headroom_bytes})
        yield self._gauge(names.MEMORY_LIMIT, {(): planned.usable_bytes})
        parts: _Values = {(part,): size for part, size in planned.plan.parts.items()}
        yield self._gauge(names.MEMORY_PLANNED, parts)
        resident: _Values = {("server",): reading.server_bytes, ("engine",): reading.engine_bytes}
        yield self._gauge(names.MEMORY_RESIDENT, resident)

    def _gauge(self, family: names.Family, values: _Values) -> Metric:
        metric = GaugeMetricFamily(family.full_name, family.help, labels=family.labels)
        for labels, value in values.items():
            metric.add_metric((self._model_name, *labels), value)
        return metric
