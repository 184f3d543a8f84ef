"""Prometheus text to the totals and gauges the autopilot uses.

Load and shape are summed over tiers; latencies that objectives are about never mix tiers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise
from math import isfinite
from typing import Any

from paceline_operator.autopilot.vocabulary.window import (
    BATCH,
    INTERACTIVE,
    TERMS,
    Counter,
    Histogram,
    Latency,
    Moments,
    SloCounts,
    StepClass,
    kept_once,
    slo_key,
)
from paceline_operator.metrics import names
from paceline_operator.metrics.errors import ScrapeError
from paceline_operator.metrics.text_format import Sample, TextReader

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
UNREAD = frozenset(
    {
        Counter.PROMPT_TOKENS,
        Counter.PREEMPTIONS,
        Counter.BUSY_SECONDS,
        Latency.QUEUE,
        Latency.STEP,
    }
)
"""What engines tell and no loop looks at: it is passed over, or it would be kept of every pod."""
JUDGED = frozenset({Latency.TTFT, Latency.ITL, Latency.TPOT, Latency.E2E})
_BY_TIER = JUDGED | {Latency.PROMPT_TOKENS}
"""What is kept of each tier by itself: the longest prompts of a batch make no first token late."""
Judged = frozenset[tuple[Latency, str]]
"""Latencies with a tier that some objective is about."""
ALL_JUDGED: Judged = frozenset((role, tier) for role in JUDGED for tier in (INTERACTIVE, BATCH))
_ALWAYS_READ = frozenset({(Latency.TTFT, INTERACTIVE)})
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
_CLASSES = {step_class.value: step_class for step_class in StepClass}


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Counters since the engine started; histogram counts are per bucket.

    `batch` has the batch tier's latencies that objectives are about, and its prompts' length; in
    `histograms` those are of the interactive tier alone, and all others of both.
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


def without_unjudged(totals: Totals, judged: Judged) -> Totals:
    """The same without the latencies that no objective is about: nobody asks for those."""
    return replace(
        totals,
        histograms=_of(totals.histograms, INTERACTIVE, judged),
        batch=_of(totals.batch, BATCH, judged),
    )


def _of(
    histograms: Mapping[Latency, Histogram], tier: str, judged: Judged
) -> Mapping[Latency, Histogram]:
    kept = judged | _ALWAYS_READ
    return {
        role: found
        for role, found in histograms.items()
        if role not in JUDGED or (role, tier) in kept
    }


def parse(text: str) -> Exposition:
    """Reads a `/metrics` answer; families it does not know are passed over.

    Raises:
        ScrapeError: The text is not in the exposition format, or no engine's.
    """
    return collect(_reader.samples(text))


def collect(samples: Iterable[Sample]) -> Exposition:
    """One pod's samples of one instant, sorted into place.

    Raises:
        ScrapeError: They cannot be read, or are no engine's.
    """
    collected = _Collected()
    try:
        for name, labels, value in samples:
            place = _PLACES.get(name)
            if place is not None:
                if not isfinite(value) or value < 0:
                    raise ValueError(f"{name} is {value}")
                add, role = place
                add(collected, role, labels, value)
        found = collected.exposition()
    except (ValueError, KeyError, OverflowError) as error:
        raise ScrapeError(f"not readable as engine metrics: {error}") from error
    if not collected.gauges:
        raise ScrapeError("the answer holds no engine metrics")
    return found


class _Collected:
    """Samples sorted into place while they are read; each kind has a method that adds one."""

    def __init__(self) -> None:
        self.gauges: dict[str, float] = {}
        self._by_tier: dict[tuple[str, str], float] = {}
        self._counters: dict[Counter, float] = {}
        self._buckets: dict[tuple[Latency, str], dict[str, float]] = {}
        self._sums: dict[tuple[Latency, str], float] = {}
        self._terms: dict[StepClass, dict[str, float]] = {}
        self._slo: dict[str, SloCounts] = {}
        self._capacity: int | None = None

    def add_gauge(self, name: str, labels: Mapping[str, str], value: float) -> None:
        self.gauges[name] = self.gauges.get(name, 0.0) + value
        tier = labels.get("tier")
        if tier is not None:
            self._by_tier[name, tier] = self._by_tier.get((name, tier), 0.0) + value

    def add_counter(self, role: Counter, labels: Mapping[str, str], value: float) -> None:
        self._counters[role] = self._counters.get(role, 0.0) + value
        if role is Counter.PROMPT_TOKENS_RECEIVED and labels.get("tier") == BATCH:
            self.add_counter(Counter.BATCH_TOKENS_RECEIVED, {}, value)

    def add_refused(self, role: Counter, labels: Mapping[str, str], value: float) -> None:
        """Refusals that objectives of the interactive tier count as missed.

        Those of another tier are that tier's; what the caller got wrong, what another replica
        serves, and what has no reason say nothing against this service.
        """
        is_own = labels.get("tier", INTERACTIVE) == INTERACTIVE
        if is_own and labels.get("reason") in names.OVERLOAD_REASONS:
            self.add_counter(role, labels, value)

    def add_moment(self, _: None, labels: Mapping[str, str], value: float) -> None:
        step_class = _CLASSES.get(labels["class"])
        if step_class is not None:  # a newer engine may know more of them
            terms = self._terms.setdefault(step_class, {})
            terms[labels["term"]] = terms.get(labels["term"], 0.0) + value

    def add_slo(self, _: None, labels: Mapping[str, str], value: float) -> None:
        # An engine that does not say which metric and tier has counted for no known objective.
        metric, tier = labels.get("metric", ""), labels.get("tier", INTERACTIVE)
        key = slo_key(labels["slo"], metric, int(float(labels["target_ms"])), tier)
        counts = SloCounts(good=value) if labels["outcome"] == "good" else SloCounts(bad=value)
        self._slo[key] = self._slo.get(key, SloCounts()) + counts

    def add_capacity(self, _: None, labels: Mapping[str, str], __: float) -> None:
        self._capacity = int(labels["block_size"]) * int(labels["num_gpu_blocks"])

    def add_bucket(self, role: Latency, labels: Mapping[str, str], value: float) -> None:
        counts = self._buckets.setdefault((role, _tier(role, labels)), {})
        edge = labels["le"]
        counts[edge] = counts.get(edge, 0.0) + value

    def add_sum(self, role: Latency, labels: Mapping[str, str], value: float) -> None:
        key = role, _tier(role, labels)
        self._sums[key] = self._sums.get(key, 0.0) + value

    def exposition(self) -> Exposition:
        return Exposition(
            totals=Totals(
                counters=self._counters,
                histograms=self._histograms(INTERACTIVE),
                batch=self._histograms(BATCH),
                steps={
                    step_class: Moments(tuple(terms.get(term, 0.0) for term in TERMS))
                    for step_class, terms in self._terms.items()
                },
                slo=self._slo,
            ),
            gauges=self.gauges,
            by_tier=self._by_tier,
            kv_capacity_tokens=self._capacity,
        )

    def _histograms(self, tier: str) -> dict[Latency, Histogram]:
        return {
            role: _histogram(counts, self._sums.get((role, of), 0.0))
            for (role, of), counts in self._buckets.items()
            if of == tier
        }


def _tier(role: Latency, labels: Mapping[str, str]) -> str:
    return labels.get("tier", INTERACTIVE) if role in _BY_TIER else INTERACTIVE


def _histogram(cumulative: Mapping[str, float], total: float) -> Histogram:
    edges = _edges(tuple(cumulative))
    ordered = [cumulative[text] for text in edges.texts]
    steps = (high - low for low, high in pairwise(ordered))
    return Histogram(edges.values, (kept_once(ordered[0]), *map(kept_once, steps)), total)


@dataclass(frozen=True, slots=True)
class _Edges:
    """Upper bounds, increasing, and how they are written."""

    values: tuple[float, ...]
    texts: tuple[str, ...]


@lru_cache(maxsize=256)
def _edges(texts: tuple[str, ...]) -> _Edges:
    """All pods of all fleets share the few sets of edges that there are."""
    found = sorted({float(text): text for text in texts}.items())
    if len(found) < len(texts):
        raise ValueError("an edge in two spellings")
    return _Edges(tuple(value for value, _ in found), tuple(text for _, text in found))


_READ_COUNTERS = {name: role for name, role in COUNTERS.items() if role not in UNREAD}
_READ_HISTOGRAMS = {name: role for name, role in HISTOGRAMS.items() if role not in UNREAD}
_Add = Callable[[_Collected, Any, Mapping[str, str], float], None]
_PLACES: Mapping[str, tuple[_Add, object]] = {
    **{name: (_Collected.add_counter, role) for name, role in _READ_COUNTERS.items()},
    names.REJECTED.full_name: (_Collected.add_refused, Counter.REQUESTS_REJECTED),
    **{f"{name}_bucket": (_Collected.add_bucket, role) for name, role in _READ_HISTOGRAMS.items()},
    **{f"{name}_sum": (_Collected.add_sum, role) for name, role in _READ_HISTOGRAMS.items()},
    **{name: (_Collected.add_gauge, name) for name in _GAUGES},
    names.STEP_MOMENTS.full_name: (_Collected.add_moment, None),
    names.SLO_SAMPLES.full_name: (_Collected.add_slo, None),
    names.CACHE_CONFIG.full_name: (_Collected.add_capacity, None),
}
WANTED = frozenset(_PLACES)
"""Names of all samples that are read."""

_reader = TextReader(WANTED, common="model_name")
