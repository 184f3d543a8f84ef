"""Measurements of a stretch of time, summed over pods: additive, so windows merge.

`metrics.scraper` cuts the scraped counters into slices of this form; the loops add up
as many slices as they need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import reduce
from itertools import combinations_with_replacement
from math import sqrt
from operator import add
from typing import TypeVar

from typing_extensions import override

# Variables of one step: the constant 1, prefill tokens, decode rows, resident KV tokens,
# chunk length x context, step time in seconds.
VARIABLES = "npdkxt"
INTERACTIVE = "interactive"
"""The tier that is tuned and scaled for; work of any other tier is fitted in beside it."""
BATCH = "batch"
_PAIRS = tuple(combinations_with_replacement(VARIABLES, 2))
# Names of the sums as engines export them: `n`, `p` .. `t`, then products `pp`, `pd` .. `tt`.
TERMS: tuple[str, ...] = tuple((a + b).replace("n", "") or "n" for a, b in _PAIRS)
_PLACE: dict[str, int] = {term: place for place, term in enumerate(TERMS)}
_SMALL = {float(count): float(count) for count in range(1024)}


class StepClass(StrEnum):
    """What a step is made of."""

    DECODE_ONLY = "decode_only"
    MIXED = "mixed"
    PREFILL_ONLY = "prefill_only"


@dataclass(frozen=True, slots=True)
class Moments:
    """Sums over steps of each step variable and of each product of two.

    Attributes:
        sums: One value per entry of `TERMS`.
    """

    sums: tuple[float, ...] = (0.0,) * len(TERMS)

    def of(self, term: str) -> float:
        """One sum, by its name in `TERMS`."""
        return self.sums[_PLACE[term]]

    def product(self, first: str, second: str) -> float:
        """Sum over steps of the product of two variables, in any order, `n` included."""
        if VARIABLES.index(first) > VARIABLES.index(second):
            first, second = second, first
        return self.of((first + second).replace("n", "") or "n")

    @property
    def count(self) -> float:
        """Number of steps."""
        return self.sums[0]

    def mean(self, variable: str) -> float:
        """Mean of a variable over the steps; 0 without steps."""
        return self.of(variable) / self.count if self.count else 0.0

    def spread(self, variable: str) -> float:
        """Standard deviation of a variable over the steps; 0 without steps."""
        if not self.count:
            return 0.0
        mean = self.mean(variable)
        return sqrt(max(0.0, self.of(variable * 2) / self.count - mean * mean))

    def __add__(self, other: Moments) -> Moments:
        """Moments of both sets of steps."""
        return Moments(tuple(a + b for a, b in zip(self.sums, other.sums, strict=True)))


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts per bucket; `edges` are upper bounds, the last one infinite.

    Attributes:
        edges: Increasing upper bounds.
        counts: Samples in each bucket (not cumulative).
        total: Sum of the samples.
    """

    edges: tuple[float, ...] = ()
    counts: tuple[float, ...] = ()
    total: float = 0.0

    @property
    def samples(self) -> float:
        """Number of samples."""
        return sum(self.counts)

    @property
    def mean(self) -> float:
        """Mean sample; 0 without samples."""
        return self.total / self.samples if self.samples else 0.0

    def quantile(self, share: float) -> float | None:
        """Value below which `share` of the samples lie, linear inside a bucket.

        The open last bucket answers with its lower edge. None without samples.
        """
        rank = share * self.samples
        if not self.samples:
            return None
        below, lower = 0.0, 0.0
        for edge, count in zip(self.edges, self.counts, strict=True):
            if below + count >= rank and count:
                inside = (rank - below) / count
                return lower if edge == float("inf") else lower + (edge - lower) * inside
            below, lower = below + count, edge
        return lower

    def below(self, value: float) -> float:
        """Samples up to `value`, linear inside a bucket; the open last one counts as above."""
        inside, lower = 0.0, 0.0
        for edge, count in zip(self.edges, self.counts, strict=True):
            if edge <= value:
                inside += count
            elif lower < value < edge < float("inf"):
                inside += count * (value - lower) / (edge - lower)
            lower = edge
        return inside

    def around(self, value: float) -> tuple[float, float]:
        """The edges next to a value, both the value itself where it is one of them."""
        below = max((edge for edge in self.edges if edge <= value), default=0.0)
        above = min((edge for edge in self.edges if edge >= value), default=float("inf"))
        return below, above

    def up_to(self, edge: float) -> float:
        """Samples up to an edge: known exactly."""
        return sum(c for e, c in zip(self.edges, self.counts, strict=True) if e <= edge)

    @property
    def squared_variation(self) -> float:
        """Variance over squared mean, each sample taken for the middle of its bucket."""
        if not self.samples or not self.total:
            return 0.0
        lowers = (0.0, *self.edges)
        middles = [
            lower if edge == float("inf") else (lower + edge) / 2
            for lower, edge in zip(lowers, self.edges, strict=False)
        ]
        first = sum(m * c for m, c in zip(middles, self.counts, strict=True)) / self.samples
        second = sum(m * m * c for m, c in zip(middles, self.counts, strict=True)) / self.samples
        # With no edge but the last, all that is known of them is that they came.
        return max(0.0, second / (first * first) - 1.0) if first else 0.0

    def __add__(self, other: Histogram) -> Histogram:
        """Both sets of samples; different edges (mixed versions) fall back to common ones."""
        if not other.edges or not self.edges:
            return self if self.edges else other
        if self.edges == other.edges:
            counts = tuple(a + b for a, b in zip(self.counts, other.counts, strict=True))
            return Histogram(self.edges, counts, self.total + other.total)
        common = tuple(e for e in self.edges if e in set(other.edges))
        return self.on_edges(common) + other.on_edges(common)

    def on_edges(self, edges: tuple[float, ...]) -> Histogram:
        """The same samples on a subset of the edges; those beyond the last of them are left out."""
        counts = [0.0] * len(edges)
        for edge, count in zip(self.edges, self.counts, strict=True):
            place = next((i for i, e in enumerate(edges) if e >= edge), None)
            if place is not None:
                counts[place] += count
        return Histogram(edges, tuple(counts), self.total)


@dataclass(frozen=True, slots=True)
class SloCounts:
    """Exact samples of one objective."""

    good: float = 0.0
    bad: float = 0.0

    @property
    def total(self) -> float:
        """All samples."""
        return self.good + self.bad

    def __add__(self, other: SloCounts) -> SloCounts:
        """Both sets of samples."""
        return SloCounts(self.good + other.good, self.bad + other.bad)


def slo_key(name: str, metric: str, target_ms: int, tier: str = INTERACTIVE) -> str:
    """Key of an objective's samples.

    Those counted under its name when it had another tier, metric or target stay apart.
    """
    return f"{tier}:{name}:{metric}@{target_ms}"


class Counter(StrEnum):
    """Plain counters of a window, by their role."""

    REQUESTS_RECEIVED = "requests_received"
    PROMPT_TOKENS_RECEIVED = "prompt_tokens_received"
    BATCH_TOKENS_RECEIVED = "batch_tokens_received"
    """Of those, the ones of the batch tier: no replica is there for them."""
    REQUESTS_FINISHED = "requests_finished"
    REQUESTS_REJECTED = "requests_rejected"
    PROMPT_TOKENS = "prompt_tokens"
    GENERATION_TOKENS = "generation_tokens"
    PREFIX_QUERIES_TOKENS = "prefix_queries_tokens"
    PREFIX_HITS_TOKENS = "prefix_hits_tokens"
    PREEMPTIONS = "preemptions"
    STEPS_AT_BUDGET = "steps_at_budget"
    BUSY_SECONDS = "busy_seconds"


class Latency(StrEnum):
    """Histograms of a window, by their role; times in seconds."""

    TTFT = "ttft"
    ITL = "itl"
    TPOT = "tpot"
    E2E = "e2e"
    QUEUE = "queue"
    STEP = "step"
    PROMPT_TOKENS = "prompt_tokens_per_request"
    GENERATION_TOKENS = "generation_tokens_per_request"


@dataclass(frozen=True, slots=True)
class PodShare:
    """What one pod has added to a window, as far as pods are judged by it.

    Attributes:
        steps: Moments by step class.
        at_budget: Steps that used the whole token budget.
        slo: Exact samples by `slo_key`.
    """

    steps: Mapping[StepClass, Moments] = field(default_factory=dict)
    at_budget: float = 0.0
    slo: Mapping[str, SloCounts] = field(default_factory=dict)

    def moments(self, *classes: StepClass) -> Moments:
        """Moments over some classes, or all."""
        chosen = classes or tuple(StepClass)
        return total_moments(self.steps[c] for c in chosen if c in self.steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What happened in (start_s, end_s], summed over the pods that reported.

    Attributes:
        start_s: Beginning, seconds on the operator's clock.
        end_s: End.
        pod_seconds: Sum over pods of the time their deltas cover.
        steps: Moments by step class, of pods with the current template only.
        counters: Increases by role; a missing key is 0.
        histograms: By role; a missing key is empty. Latencies that objectives are about, and the
            length of prompts, are of the interactive tier here, all others of both.
        batch: The same of the batch tier.
        slo: Exact samples by `slo_key`.
        pods: UID -> what a pod has added; kept of the newest slices only, none of older ones.
    """

    start_s: float
    end_s: float
    pod_seconds: float = 0.0
    steps: Mapping[StepClass, Moments] = field(default_factory=dict)
    counters: Mapping[Counter, float] = field(default_factory=dict)
    histograms: Mapping[Latency, Histogram] = field(default_factory=dict)
    batch: Mapping[Latency, Histogram] = field(default_factory=dict)
    slo: Mapping[str, SloCounts] = field(default_factory=dict)
    pods: Mapping[str, PodShare] = field(default_factory=dict)

    @property
    def length_s(self) -> float:
        """Length of the window."""
        return max(0.0, self.end_s - self.start_s)

    def count(self, counter: Counter) -> float:
        """Increase of a counter."""
        return self.counters.get(counter, 0.0)

    def rate(self, counter: Counter) -> float:
        """Increase of a counter per second of the window; 0 for an empty window."""
        return self.count(counter) / self.length_s if self.length_s else 0.0

    @property
    def offered_tokens(self) -> float:
        """Prompt tokens received that replicas are there for: those of the interactive tier."""
        received = self.count(Counter.PROMPT_TOKENS_RECEIVED)
        return received - self.count(Counter.BATCH_TOKENS_RECEIVED)

    def moments(self, *classes: StepClass) -> Moments:
        """Moments over some classes, or all."""
        chosen = classes or tuple(StepClass)
        return total_moments(self.steps[c] for c in chosen if c in self.steps)

    def histogram(self, latency: Latency, tier: str = INTERACTIVE) -> Histogram:
        """One histogram, empty where nothing was reported."""
        found = self.histograms if tier == INTERACTIVE else self.batch
        return found.get(latency, Histogram())


def kept_once(count: float) -> float:
    """A count; the small whole ones, as nearly all of a histogram are, are one object each."""
    return _SMALL.get(count, count)


def merge(windows: Iterable[Window]) -> Window:
    """One window that spans all of them; the sums add up."""
    found = spanning(windows)
    return replace(
        found,
        steps=dict(found.steps),
        counters=dict(found.counters),
        histograms=dict(found.histograms),
        batch=dict(found.batch),
        slo=dict(found.slo),
        pods=dict(found.pods),
    )


def without(window: Window, uids: AbstractSet[str]) -> Window:
    """The window less what some pods have added to steps, full steps and objectives.

    All else stays: requests are shared out over the fleet, steps and samples are a pod's own.
    """
    if not uids & window.pods.keys():
        return window
    kept = total_shares(share for uid, share in window.pods.items() if uid not in uids)
    counters = {**window.counters, Counter.STEPS_AT_BUDGET: kept.at_budget}
    return replace(window, steps=kept.steps, counters=counters, slo=kept.slo)


def spanning(windows: Iterable[Window]) -> Window:
    """The same over parts that are kept: each sum is made when it is first asked for.

    A control loop asks many stretches of time for few of their sums.
    """
    parts = list(windows)
    if not parts:
        return Window(start_s=0.0, end_s=0.0)
    if len(parts) == 1:
        return parts[0]
    return Window(
        start_s=min(w.start_s for w in parts),
        end_s=max(w.end_s for w in parts),
        pod_seconds=sum(w.pod_seconds for w in parts),
        steps=_Summed([w.steps for w in parts], total_moments),
        counters=_Summed([w.counters for w in parts], sum),
        histograms=_Summed([w.histograms for w in parts], total_histogram),
        batch=_Summed([w.batch for w in parts], total_histogram),
        slo=_Summed([w.slo for w in parts], total_counts),
        pods=_Summed([w.pods for w in parts], total_shares),
    )


def total_moments(parts: Iterable[Moments]) -> Moments:
    """Moments of all sets of steps."""
    columns = tuple(zip(*(part.sums for part in parts), strict=True))
    return Moments(tuple(map(sum, columns))) if columns else Moments()


def total_histogram(parts: Iterable[Histogram]) -> Histogram:
    """All sets of samples; different edges (mixed versions) fall back to common ones."""
    filled = [part for part in parts if part.edges]
    if not filled:
        return Histogram()
    edges = filled[0].edges
    if any(part.edges != edges for part in filled):
        return reduce(add, filled)
    counts = tuple(map(sum, zip(*(part.counts for part in filled), strict=True)))
    return Histogram(edges, counts, sum(part.total for part in filled))


def total_shares(parts: Iterable[PodShare]) -> PodShare:
    """What all of them have added."""
    found = list(parts)
    if len(found) == 1:
        return found[0]
    return PodShare(
        steps=_Summed([share.steps for share in found], total_moments),
        at_budget=sum(share.at_budget for share in found),
        slo=_Summed([share.slo for share in found], total_counts),
    )


def total_counts(parts: Iterable[SloCounts]) -> SloCounts:
    """All sets of samples."""
    return reduce(add, parts, SloCounts())


_K = TypeVar("_K")
_V = TypeVar("_V")


class _Summed(Mapping[_K, _V]):
    """The sums of many maps by key; a control loop asks for few of them, so none is made early.

    Args:
        parts: The maps.
        total: Adds up values of one key.
    """

    __slots__ = ("_made", "_parts", "_total")

    def __init__(self, parts: list[Mapping[_K, _V]], total: Callable[[Iterable[_V]], _V]) -> None:
        self._parts = parts
        self._total = total
        self._made: dict[_K, _V] = {}

    @override
    def __getitem__(self, key: _K) -> _V:
        if key not in self._made:
            found = [part[key] for part in self._parts if key in part]
            if not found:
                raise KeyError(key)
            self._made[key] = self._total(found)
        return self._made[key]

    @override
    def __iter__(self) -> Iterator[_K]:
        return iter(dict.fromkeys(key for part in self._parts for key in part))

    @override
    def __len__(self) -> int:
        return sum(1 for _ in self)
