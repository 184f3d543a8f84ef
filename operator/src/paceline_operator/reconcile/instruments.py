"""The operator's own metrics."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]  # theirs
RESULTS = ("ok", "conflict", "unavailable", "error", "defect")
_OBJECT = ("namespace", "name")
_Labels = tuple[str, ...]


class Instruments:
    """Families under the prefix `paceline_operator_`."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self._labels: dict[tuple[str, str], dict[Counter | Gauge, set[_Labels]]] = {}
        self.ticks = Counter(
            "paceline_operator_ticks", "Passes over objects.", ("result",), registry=registry
        )
        self.tick_seconds = Histogram(
            "paceline_operator_tick_seconds", "Length of one pass.", registry=registry
        )
        self.decisions = Counter(
            "paceline_operator_decisions",
            "Decisions, holds included.",
            (*_OBJECT, "knob", "action", "reason"),
            registry=registry,
        )
        self.replicas = Gauge(
            "paceline_operator_replicas_wanted", "Replicas wanted.", _OBJECT, registry=registry
        )
        self.ready = Gauge(
            "paceline_operator_replicas_ready", "Pods that serve.", _OBJECT, registry=registry
        )
        self.budget = Gauge(
            "paceline_operator_max_num_batched_tokens", "Token budget asked of the engines.",
            _OBJECT, registry=registry,
        )  # fmt: skip
        self.attainment = Gauge(
            "paceline_operator_slo_attainment_ratio",
            "Share of samples within target, 0 to 1.",
            (*_OBJECT, "slo"),
            registry=registry,
        )
        self.unrecorded = Counter(
            "paceline_operator_decisions_unrecorded",
            "Decisions that should have been recorded and were left out.",
            registry=registry,
        )
        self.burn = Gauge(
            "paceline_operator_slo_error_budget_burn",
            "Share missed over share allowed: 1 uses the error budget up exactly.",
            (*_OBJECT, "slo", "window"),
            registry=registry,
        )
        self.slow_pods = Gauge(
            "paceline_operator_slow_pods",
            "Serving pods that are much slower than their pool.",
            _OBJECT,
            registry=registry,
        )
        self.queue_depth = Gauge(
            "paceline_operator_queue_depth", "Objects waiting for a pass.", registry=registry
        )
        self.scrape_interval = Gauge(
            "paceline_operator_scrape_interval_seconds",
            "Time between two readings of an engine; stretched where one core cannot keep up.",
            registry=registry,
        )
        for result in RESULTS:
            self.ticks.labels(result)  # the first of a kind is a rise, and no new series

    def decided(self, namespace: str, name: str, knob: str, action: str, reason: str) -> None:
        """Count a decision."""
        labels = (namespace, name, knob, action, reason)
        self._of(self.decisions, namespace, name).add(labels)
        self.decisions.labels(*labels).inc()

    def wanted(self, namespace: str, name: str, replicas: int | None, budget: int | None) -> None:
        """Show what is asked for; what is not known yet is no zero, and has no series."""
        for family, value in ((self.replicas, replicas), (self.budget, budget)):
            shown: dict[_Labels, float] = {}
            if value is not None:
                shown[namespace, name] = float(value)
            self._show(family, namespace, name, shown)

    def attain(self, namespace: str, name: str, ratios: Mapping[str, float]) -> None:
        """Show the objectives there are now, and no series of one that was removed."""
        shown: dict[_Labels, float] = {
            (namespace, name, slo): ratio for slo, ratio in ratios.items()
        }
        self._show(self.attainment, namespace, name, shown)

    def burns(self, namespace: str, name: str, rates: Mapping[tuple[str, str], float]) -> None:
        """Show burn rates by objective and window, and no series of one that was removed."""
        shown: dict[_Labels, float] = {(namespace, name, *of): rate for of, rate in rates.items()}
        self._show(self.burn, namespace, name, shown)

    def forget(self, namespace: str, name: str) -> None:
        """Drop the series of an object that is gone."""
        for family in (self.ready, self.slow_pods):
            with suppress(KeyError):
                family.remove(namespace, name)
        for labelled, labels in self._labels.pop((namespace, name), {}).items():
            for each in labels:
                labelled.remove(*each)

    def _show(
        self, family: Gauge, namespace: str, name: str, values: Mapping[_Labels, float]
    ) -> None:
        known = self._of(family, namespace, name)
        for labels in known - values.keys():
            family.remove(*labels)
        for labels, value in values.items():
            family.labels(*labels).set(value)
        known.clear()
        known.update(values)

    def _of(self, family: Counter | Gauge, namespace: str, name: str) -> set[_Labels]:
        """Labels of one object's series: to look through all objects' costs too much a pass."""
        return self._labels.setdefault((namespace, name), {}).setdefault(family, set())
