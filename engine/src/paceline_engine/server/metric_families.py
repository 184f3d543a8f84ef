"""The request families as prometheus objects, bound to this server's labels.

Families of the engine loop are rendered from snapshots by `loop_metrics`; objectives by
`slo`.
"""

from __future__ import annotations

import time

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from paceline_engine.request import Tier
from paceline_engine.server import metric_names as names
from paceline_engine.server.metric_names import Family

TIER = Tier.INTERACTIVE.value
prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]  # theirs


class RequestMetrics:
    """Counters and histograms that the server feeds itself.

    Attributes:
        registry: Everything on `/metrics`.
        model_name: Value of the `model_name` label.
    """

    def __init__(self, model_name: str) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        self.model_name = model_name
        self._requests = self._outcomes(names.REQUESTS, names.OUTCOMES)
        self._rejected = self._outcomes(names.REJECTED, names.REJECTION_REASONS)
        self._goodput = self._outcomes(names.GOODPUT, names.SLO_OUTCOMES)
        self.received = self._counter(names.REQUESTS_RECEIVED)
        self.prompt_tokens_received = self._counter(names.PROMPT_TOKENS_RECEIVED)
        self.ttft = self._histogram(names.TTFT)
        self.itl = self._histogram(names.ITL)
        self.tpot = self._histogram(names.TPOT)
        self.queue = self._histogram(names.QUEUE)
        self.duration = self._histogram(names.DURATION)
        self.request_prompt_tokens = self._histogram(names.PROMPT_TOKENS_HIST)
        self.request_generation_tokens = self._histogram(names.GENERATION_TOKENS_HIST)
        self.prompt_tokens = self._counter(names.PROMPT_TOKENS)
        self.generation_tokens = self._counter(names.GENERATION_TOKENS)
        start = names.START_TIME
        Gauge(start.full_name, start.help, start.labels, registry=self.registry).labels(
            model_name
        ).set(time.time())

    def ended(self, outcome: str) -> None:
        """Counts a request's end; `outcome` is one of `OUTCOMES`."""
        self._requests[outcome].inc()

    def rejected(self, reason: str) -> None:
        """Counts a refusal; `reason` is one of `REJECTION_REASONS`."""
        self._rejected[reason].inc()

    def judged(self, *, good: bool) -> None:
        """Counts a request as goodput or not."""
        self._goodput["good" if good else "bad"].inc()

    def render(self) -> bytes:
        """All families in the text exposition format."""
        return prometheus_client.generate_latest(self.registry)

    def _outcomes(self, family: Family, values: tuple[str, ...]) -> dict[str, Counter]:
        counter = Counter(family.full_name, family.help, family.labels, registry=self.registry)
        return {value: counter.labels(self.model_name, TIER, value) for value in values}

    def _counter(self, family: Family) -> Counter:
        counter = Counter(family.full_name, family.help, family.labels, registry=self.registry)
        return counter.labels(*self._values(family))

    def _histogram(self, family: Family) -> Histogram:
        histogram = Histogram(
            family.full_name,
            family.help,
            family.labels,
            buckets=family.buckets,
            registry=self.registry,
        )
        return histogram.labels(*self._values(family))

    def _values(self, family: Family) -> tuple[str, ...]:
        return (self.model_name, TIER) if "tier" in family.labels else (self.model_name,)
