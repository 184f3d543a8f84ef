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

prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]  # theirs


class _Families:
    """Families as prometheus objects, each made where it is first asked for."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._counters: dict[str, Counter] = {}
        self._histograms: dict[str, Histogram] = {}

    def counter(self, family: Family) -> Counter:
        if family.name not in self._counters:
            self._counters[family.name] = Counter(
                family.full_name, family.help, family.labels, registry=self._registry
            )
        return self._counters[family.name]

    def histogram(self, family: Family) -> Histogram:
        if family.name not in self._histograms:
            self._histograms[family.name] = Histogram(
                family.full_name,
                family.help,
                family.labels,
                buckets=family.buckets,
                registry=self._registry,
            )
        return self._histograms[family.name]


class TierMetrics:
    """Request families of one tier.

    Args:
        families: Those of all tiers.
        labels: Model name and tier.
    """

    def __init__(self, families: _Families, labels: tuple[str, str]) -> None:
        self._families = families
        self._labels = labels
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

    def ended(self, outcome: str) -> None:
        """Counts a request's end; `outcome` is one of `OUTCOMES`."""
        self._requests[outcome].inc()

    def rejected(self, reason: str, requests: int = 1) -> None:
        """Counts refused requests; `reason` is one of `REJECTION_REASONS`."""
        self._rejected[reason].inc(requests)

    def judged(self, *, good: bool, requests: int = 1) -> None:
        """Counts requests as goodput or not."""
        self._goodput["good" if good else "bad"].inc(requests)

    def _counter(self, family: Family) -> Counter:
        return self._families.counter(family).labels(*self._labels)

    def _outcomes(self, family: Family, values: tuple[str, ...]) -> dict[str, Counter]:
        counter = self._families.counter(family)
        return {value: counter.labels(*self._labels, value) for value in values}

    def _histogram(self, family: Family) -> Histogram:
        return self._families.histogram(family).labels(*self._labels)


class RequestMetrics:
    """Counters and histograms that the server feeds itself.

    Attributes:
        registry: Everything on `/metrics`.
        model_name: Value of the `model_name` label.
        prompt_tokens: Of both tiers; `generation_tokens` likewise.
        connections_refused: On all ports.
    """

    def __init__(self, model_name: str) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        self.model_name = model_name
        families = _Families(self.registry)
        self._tiers = {tier: TierMetrics(families, (model_name, tier.value)) for tier in Tier}
        rejected = families.counter(names.REJECTED)
        self._unread = {
            reason: rejected.labels(model_name, names.UNREAD, reason)
            for reason in names.REDIRECT_REASONS
        }
        self.prompt_tokens = families.counter(names.PROMPT_TOKENS).labels(model_name)
        self.generation_tokens = families.counter(names.GENERATION_TOKENS).labels(model_name)
        self.connections_refused = families.counter(names.CONNECTIONS_REFUSED).labels(model_name)
        start = names.START_TIME
        Gauge(start.full_name, start.help, start.labels, registry=self.registry).labels(
            model_name
        ).set(time.time())

    def of(self, tier: Tier) -> TierMetrics:
        """Families of one tier."""
        return self._tiers[tier]

    def redirected(self, reason: str, tier: Tier | None, requests: int = 1) -> None:
        """Counts a 503; `reason` is one of `REDIRECT_REASONS`, the tier None while unread."""
        if tier is None:
            self._unread[reason].inc(requests)
        else:
            self.of(tier).rejected(reason, requests)

    def render(self) -> bytes:
        """All families in the text exposition format."""
        return prometheus_client.generate_latest(self.registry)
