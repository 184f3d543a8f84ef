"""Metrics text of an engine, written by the official client from given totals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from paceline_operator.metrics import names

EDGES = (0.1, 0.5, 1.0)


class EngineText:
    """Totals of one pretended engine process."""

    def __init__(self, started_s: float = 100.0) -> None:
        self.registry = CollectorRegistry()
        self._families: dict[str, Any] = {}
        self.gauge(names.START_TIME, started_s)

    def gauge(self, family: names.Family, value: float, **labels: str) -> None:
        made = self._made(family, Gauge)
        made.labels(**_all(family, labels)).set(value)

    def add(self, family: names.Family, value: float, **labels: str) -> None:
        made = self._made(family, Counter)
        made.labels(**_all(family, labels)).inc(value)

    def observe(self, family: names.Family, *values: float, **labels: str) -> None:
        made = self._made(family, partial(Histogram, buckets=EDGES))
        for value in values:
            made.labels(**_all(family, labels)).observe(value)

    def render(self) -> str:
        return generate_latest(self.registry).decode()

    def _made(self, family: names.Family, kind: Callable[..., Any]) -> Any:
        if family.name not in self._families:
            self._families[family.name] = kind(
                family.full_name, "help", family.labels, registry=self.registry
            )
        return self._families[family.name]


def _all(family: names.Family, labels: Mapping[str, str]) -> dict[str, str]:
    defaults = {"model_name": "m", "tier": "interactive"}
    return {name: labels.get(name, defaults.get(name, "")) for name in family.labels}
