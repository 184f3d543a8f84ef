"""Prometheus text to the totals and gauges the autopilot uses.

Load and shape are summed over tiers; latencies that objectives are about never mix tiers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from math import isfinite

from prometheus_client.parser import text_string_to_metric_families

from paceline_operator.autopilot.window import (
    INTERACTIVE,
    TERMS,
    Counter,
    Histogram,
    Latency,
    Moments,
    SloCounts,
    StepClass,
    slo_key,
)
from paceline_operator.metrics import names
from paceline_operator.metrics.errors import ScrapeError

COUNTERS = {
    names.REQUESTS_RECEIVED.full_name: Counter.REQUESTS_RECEIVED,
    names.PROMPT_TOKENS_RECEIVED.full_name: Counter.PROMPT_TOKENS_RECEIVED,
    names.REQUESTS.full_name: Counter.REQUESTS_FINISHED,
    names.REJECTED.full_name: Counter.REQUESTS_REJECTED,
    names.PROMPT_TOKENS.full_name: Counter.PROMPT_TOKENS,
    names.GENERATION_TOKENS.full_name: Counter.GENERATION_TOKENS,
    names.PREFIX_QUERIES.full_name: Counter.PREFIX_QUERIES_TOKENS,
    names.PREFIX_HITS.full_name: Counter.PREFIX_HITS_TOKENS,
    names.PREEMPTIONS.full_name: Counter.PREEMPTIONS,
    names.STEPS_AT_BUDGET.full_name: Counter.STEPS_AT_BUDGET,
    names.BUSY_SECONDS.full_name: Counter.BUSY_SECONDS,
}
HISTOGRAMS = {
    names.TTFT.full_name: Latency.TTFT,
    names.ITL.full_name: Latency.ITL,
    names.TPOT.full_name: Latency.TPOT,
    names.DURATION.full_name: Latency.E2E,
    names.QUEUE.full_name: Latency.QUEUE,
    names.STEP_DURATION.full_name: Latency.STEP,
    names.PROMPT_TOKENS_HIST.full_name: Latency.PROMPT_TOKENS,
    names.GENERATION_TOKENS_HIST.full_name: Latency.GENERATION_TOKENS,
}
JUDGED = frozenset({Latency.TTFT, Latency.ITL, Latency.TPOT, Latency.E2E})
BATCH = "batch"
_GAUGES = {
    names.REQUESTS_RUNNING.full_name,
    names.REQUESTS_WAITING.full_name,
    names.WAITING_TOKENS.full_name,
    names.KV_USAGE.full_name,
    names.MAX_BATCHED_TOKENS.full_name,
    names.MAX_RUNNING_SEQS.full_name,
    names.TUNABLES_REVISION.full_name,
    names.START_TIME.full_name,
}
_CLASSES = frozenset(StepClass)
WANTED = frozenset(
    (
        *COUNTERS,
        *_GAUGES,
        *(f"{name}_{part}" for name in HISTOGRAMS for part in ("bucket", "sum")),
        names.STEP_MOMENTS.full_name,
        names.SLO_SAMPLES.full_name,
        names.CACHE_CONFIG.full_name,
    )
)
"""Names of all samples that are read."""

Sample = tuple[str, Mapping[str, str], float]
"""Name, labels and value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Counters since the engine started; histogram counts are per bucket.

    `batch` has the batch tier's latencies that objectives are about; in `histograms` those are
    of the interactive tier alone, and all others of both.
    """

    counters: Mapping[Counter, float] = field(default_factory=dict)
    histograms: Mapping[Latency, Histogram] = field(default_factory=dict)
    batch: Mapping[Latency, Histogram] = field(default_factory=dict)
    steps: Mapping[StepClass, Moments] = field(default_factory=dict)
    slo: Mapping[str, SloCounts] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposition:
    """One pod's metrics at one instant.

    Attributes:
        totals: Counters since the start.
        gauges: Momentary values by full family name, summed over tiers.
        by_tier: The same by name and tier, where a gauge has one.
        kv_capacity_tokens: Tokens the KV pool holds, None where not reported.
    """

    totals: Totals = Totals()
    gauges: Mapping[str, float] = field(default_factory=dict)
    by_tier: Mapping[tuple[str, str], float] = field(default_factory=dict)
    kv_capacity_tokens: int | None = None

    def gauge(self, family: names.Family, tier: str | None = None) -> float:
        """A gauge, of one tier or of all; 0 where not reported."""
        if tier is not None:
            return self.by_tier.get((family.full_name, tier), 0.0)
        return self.gauges.get(family.full_name, 0.0)

    @property
    def started_s(self) -> float:
        """Start of the server process, Unix time; 0 where not reported."""
        return self.gauge(names.START_TIME)


def parse(text: str) -> Exposition:
    """Reads a `/metrics` answer; families it does not know are passed over.

    Raises:
        ScrapeError: The text is not in the exposition format, or no engine's.
    """
    return collect(_samples(text))


def collect(samples: Iterable[Sample]) -> Exposition:
    """One pod's samples of one instant, sorted into place.

    Raises:
        ScrapeError: They cannot be read, or are no engine's.
    """
    collected = _Collected()
    try:
        for name, labels, value in samples:
            if name in WANTED:
                collected.add(name, labels, value)
    except (ValueError, KeyError, OverflowError) as error:
        raise ScrapeError(f"not readable as engine metrics: {error}") from error
    if not collected.gauges:
        raise ScrapeError("the answer holds no engine metrics")
    return collected.exposition()


def _samples(text: str) -> Iterator[Sample]:
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            yield sample.name, sample.labels, sample.value


class _Collected:
    """Samples sorted into place while the text is read."""

    def __init__(self) -> None:
        self.gauges: dict[str, float] = {}
        self._by_tier: dict[tuple[str, str], float] = {}
        self._counters: dict[Counter, float] = {}
        self._histograms: dict[str, _Buckets] = {}
        self._terms: dict[StepClass, dict[str, float]] = {}
        self._slo: dict[str, SloCounts] = {}
        self._capacity: int | None = None

    def add(self, name: str, labels: Mapping[str, str], value: float) -> None:
        if not isfinite(value):
            raise ValueError(f"{name} is {value}")
        if name in _GAUGES:
            self._add_gauge(name, labels.get("tier"), value)
        elif name in COUNTERS:
            counter = COUNTERS[name]
            self._counters[counter] = self._counters.get(counter, 0.0) + value
        elif name == names.STEP_MOMENTS.full_name:
            self._add_moment(labels, value)
        elif name == names.SLO_SAMPLES.full_name:
            self._add_slo(labels, value)
        elif name == names.CACHE_CONFIG.full_name:
            self._capacity = int(labels["block_size"]) * int(labels["num_gpu_blocks"])
        else:
            self._add_histogram(name, labels, value)

    def _add_gauge(self, name: str, tier: str | None, value: float) -> None:
        self.gauges[name] = self.gauges.get(name, 0.0) + value
        if tier is not None:
            self._by_tier[name, tier] = self._by_tier.get((name, tier), 0.0) + value

    def _add_moment(self, labels: Mapping[str, str], value: float) -> None:
        if labels["class"] in _CLASSES:  # a newer engine may know more of them
            terms = self._terms.setdefault(StepClass(labels["class"]), {})
            terms[labels["term"]] = terms.get(labels["term"], 0.0) + value

    def _add_slo(self, labels: Mapping[str, str], value: float) -> None:
        # An engine that does not say which metric and tier has counted for no known objective.
        metric, tier = labels.get("metric", ""), labels.get("tier", INTERACTIVE)
        key = slo_key(labels["slo"], metric, int(float(labels["target_ms"])), tier)
        counts = SloCounts(good=value) if labels["outcome"] == "good" else SloCounts(bad=value)
        self._slo[key] = self._slo.get(key, SloCounts()) + counts

    def _add_histogram(self, name: str, labels: Mapping[str, str], value: float) -> None:
        base, _, suffix = name.rpartition("_")
        latency = HISTOGRAMS.get(base)
        if latency is None:
            return
        judged = latency in JUDGED
        tier = labels.get("tier", INTERACTIVE) if judged else INTERACTIVE
        self._histograms.setdefault(tier, _Buckets()).add(latency, suffix, labels, value)

    def exposition(self) -> Exposition:
        none = _Buckets()
        steps = {
            step_class: Moments(tuple(terms.get(term, 0.0) for term in TERMS))
            for step_class, terms in self._terms.items()
        }
        return Exposition(
            totals=Totals(
                counters=self._counters,
                histograms=self._histograms.get(INTERACTIVE, none).histograms(),
                batch=self._histograms.get(BATCH, none).histograms(),
                steps=steps,
                slo=self._slo,
            ),
            gauges=self.gauges,
            by_tier=self._by_tier,
            kv_capacity_tokens=self._capacity,
        )


class _Buckets:
    """Histograms of one tier while the text is read."""

    def __init__(self) -> None:
        self._cumulative: dict[Latency, dict[float, float]] = {}
        self._sums: dict[Latency, float] = {}

    def add(self, latency: Latency, suffix: str, labels: Mapping[str, str], value: float) -> None:
        if suffix == "sum":
            self._sums[latency] = self._sums.get(latency, 0.0) + value
        elif suffix == "bucket":
            edges = self._cumulative.setdefault(latency, {})
            edge = float(labels["le"])
            edges[edge] = edges.get(edge, 0.0) + value

    def histograms(self) -> dict[Latency, Histogram]:
        return {
            latency: _histogram(cumulative, self._sums.get(latency, 0.0))
            for latency, cumulative in self._cumulative.items()
        }


def _histogram(cumulative: Mapping[float, float], total: float) -> Histogram:
    edges = sorted(cumulative)
    steps = (cumulative[high] - cumulative[low] for low, high in pairwise(edges))
    counts = (cumulative[edges[0]], *steps) if edges else ()
    return Histogram(tuple(edges), counts, total)
