"""The load of the past as Prometheus keeps it: what engines received, and how long that was.

Rates over `window_s` are taken at each `step_s`: a window of four scrapes, as Prometheus's own
documentation advises, since a rate needs two samples and a scrape may be missed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import ceil, isfinite

from paceline_operator.autopilot.vocabulary.window import Histogram
from paceline_operator.metrics import names
from paceline_operator.metrics.errors import PrometheusError
from paceline_operator.metrics.query_api import QueryApi
from paceline_operator.metrics.series import Series
from paceline_operator.simulator.loads.reconstruction import Measured, Reconstruction, Sizes

SHORTEST_STEP_S = 15.0
LONGEST_STEP_S = 60.0
MOST_POINTS = 10_000
"""Below the 11,000 that a server gives of a series."""
SCRAPES_PER_STEP = 2
SCRAPES_PER_WINDOW = 4
_COUNTED_S = 300.0
_Key = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What was found.

    Attributes:
        load: As it can be played again.
        step_s: Length of a stretch.
        window_s: Time over which each rate is taken.
        scrape_s: Time between two scrapes, as seen.
        hit_share: Share of prompt tokens found in the prefix cache over the whole time.
        kv_tokens: KV tokens that one replica holds at least, None where not told.
        left_out: Requests received of each tier that is not in the load, for none of them ended and
            their lengths are not known.
    """

    load: Reconstruction
    step_s: float
    window_s: float
    scrape_s: float
    hit_share: float
    kv_tokens: int | None
    left_out: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Which series, over which time.

    Attributes:
        selector: Label matchers, without braces.
        start_s: Since the epoch.
        end_s: Since the epoch.
    """

    selector: str
    start_s: float
    end_s: float

    def of(self, family: names.Family, suffix: str = "") -> str:
        """The series of a family."""
        return f"{family.full_name}{suffix}{{{self.selector}}}"


async def read_history(server: QueryApi, asked: Question) -> History:
    """Asks for all of it.

    Raises:
        PrometheusError: No usable answer, or there is no load in it that can be played.
    """
    asked = replace(asked, start_s=_whole_ms(asked.start_s), end_s=_whole_ms(asked.end_s))
    scrape_s = await _scrape_s(server, asked)
    span_s = asked.end_s - asked.start_s
    step_s = min(LONGEST_STEP_S, max(SHORTEST_STEP_S, SCRAPES_PER_STEP * scrape_s))
    step_s = _whole_ms(min(span_s, max(step_s, span_s / MOST_POINTS)))
    table = _Table(server, asked, step_s, max(step_s, SCRAPES_PER_WINDOW * scrape_s))
    received = await table.rates(names.REQUESTS_RECEIVED, "tier")
    if not any(any(values) for values in received.values()):
        raise PrometheusError(f"{_nothing(asked)} grew in that time: there is no load to play")
    found, queried = await _prefix_rates(table)
    hits = [hit / of if of else 0.0 for hit, of in zip(found, queried, strict=True)]
    lengths = await _lengths(table)
    came = {tier: rates for (tier,), rates in received.items() if any(rates)}
    tiers = {
        tier: _stretches(step_s, rates, sizes, hits)
        for tier, rates in came.items()
        if (sizes := lengths.of(tier, rates)) is not None
    }
    if not tiers:
        raise PrometheusError(_endless(came))
    return History(
        load=Reconstruction(tiers=tiers),
        step_s=step_s,
        window_s=table.window_s,
        scrape_s=scrape_s,
        hit_share=sum(found) / sum(queried) if any(queried) else 0.0,
        kv_tokens=await _kv_tokens(server, asked),
        left_out={tier: sum(rates) * step_s for tier, rates in came.items() if tier not in tiers},
    )


def _endless(tiers: Iterable[str]) -> str:
    named = " and ".join(repr(tier) for tier in sorted(tiers))
    return (
        f"of the tier {named} no request ended in that time: its lengths are not known; "
        "ask for more with --last"
    )


def _whole_ms(seconds: float) -> float:
    """The next whole millisecond: a server knows no finer moments, and answers at others."""
    return ceil(round(1e3 * seconds, 3)) / 1e3


@dataclass(frozen=True, slots=True)
class _Table:
    """Asks for rates at the same moments."""

    server: QueryApi
    asked: Question
    step_s: float
    window_s: float

    @property
    def moments(self) -> list[float]:
        steps = round((self.asked.end_s - self.asked.start_s) / self.step_s)
        return [self.asked.start_s + (place + 1) * self.step_s for place in range(steps)]

    async def rates(
        self, family: names.Family, *labels: str, suffix: str = ""
    ) -> dict[_Key, list[float]]:
        """Growth per second at each moment, summed over pods; 0 where there is none."""
        inner = f"rate({self.asked.of(family, suffix)}[{self.window_s:.0f}s])"
        by = f" by ({', '.join(labels)})" if labels else ""
        moments = self.moments
        answer = await self.server.over(
            f"sum{by} ({inner})", start_s=moments[0], end_s=moments[-1], step_s=self.step_s
        )
        return {
            tuple(series.labels.get(label, "") for label in labels): _placed(series, moments)
            for series in answer
        }


def _placed(series: Series, moments: list[float]) -> list[float]:
    by_millisecond = {round(1e3 * moment): _number(text) for moment, text in series.points}
    return [max(0.0, by_millisecond.get(round(1e3 * moment), 0.0)) for moment in moments]


def _number(text: str) -> float:
    """A value; 0 for one that is no number, as a rate of what was not there."""
    value = float(text)
    return value if isfinite(value) else 0.0


async def _scrape_s(server: QueryApi, asked: Question) -> float:
    """Time between scrapes: five minutes by the most samples that one series has in them."""
    counted = f"max (count_over_time({asked.of(names.REQUESTS_RECEIVED)}[{_COUNTED_S:.0f}s]))"
    step_s = max(_COUNTED_S, (asked.end_s - asked.start_s) / MOST_POINTS)
    answer = await server.over(counted, start_s=asked.start_s, end_s=asked.end_s, step_s=step_s)
    latest = await server.at(counted, asked.end_s)
    counts = [_number(text) for series in (*answer, *latest) for _, text in series.points]
    if not any(counts):
        raise PrometheusError(
            f"{_nothing(asked)} is known at that time: scrape the engines' port 8001, or say with "
            "--selector which labels its series have"
        )
    return _COUNTED_S / max(counts)


def _nothing(asked: Question) -> str:
    return f"no series {asked.of(names.REQUESTS_RECEIVED)}"


async def _prefix_rates(table: _Table) -> tuple[list[float], list[float]]:
    none = [0.0] * len(table.moments)
    found = await table.rates(names.PREFIX_HITS)
    queried = await table.rates(names.PREFIX_QUERIES)
    return found.get((), none), queried.get((), none)


@dataclass(frozen=True, slots=True)
class _Lengths:
    """Tokens of prompts and answers, by tier."""

    tokens: Mapping[_Key, list[float]]
    prompts: Mapping[str, list[Histogram]]
    outputs: Mapping[str, list[Histogram]]

    def of(self, tier: str, rates: list[float]) -> list[tuple[Sizes, Sizes]] | None:
        """Prompts and answers at each moment; None where no request ended."""
        prompts = _sizes(self.prompts.get(tier, []), _means(self.tokens.get((tier,)), rates))
        outputs = _sizes(self.outputs.get(tier, []), None)
        if prompts is None or outputs is None:
            return None
        return list(zip(prompts, outputs, strict=True))


async def _lengths(table: _Table) -> _Lengths:
    return _Lengths(
        await table.rates(names.PROMPT_TOKENS_RECEIVED, "tier"),
        await _histograms(table, names.PROMPT_TOKENS_HIST),
        await _histograms(table, names.GENERATION_TOKENS_HIST),
    )


async def _histograms(table: _Table, family: names.Family) -> dict[str, list[Histogram]]:
    """Per tier, what was observed at each moment, per second."""
    buckets = await table.rates(family, "tier", "le", suffix="_bucket")
    sums = await table.rates(family, "tier", suffix="_sum")
    found: dict[str, dict[float, list[float]]] = {}
    for (tier, edge), values in buckets.items():
        found.setdefault(tier, {})[float(edge)] = values
    return {
        tier: _uncumulated(by_edge, sums.get((tier,), [0.0] * len(table.moments)))
        for tier, by_edge in found.items()
    }


def _uncumulated(by_edge: Mapping[float, list[float]], sums: list[float]) -> list[Histogram]:
    edges = tuple(sorted(by_edge))
    rows = zip(*(by_edge[edge] for edge in edges), strict=True)
    return [
        Histogram(edges, tuple(max(0.0, b - a) for a, b in pairwise((0.0, *row))), total)
        for row, total in zip(rows, sums, strict=True)
    ]


def _means(tokens: list[float] | None, requests: list[float]) -> list[float]:
    """Tokens of a prompt at each moment, 0 where there was none."""
    return [t / r if r else 0.0 for t, r in zip(tokens or [0.0] * len(requests), requests,
                                                strict=True)]  # fmt: skip


def _sizes(seen: list[Histogram], means: list[float] | None) -> list[Sizes] | None:
    """Those of each moment; where nothing was observed, of the last before, or of the whole time.

    None where nothing was observed at all.
    """
    whole = _total(seen)
    if whole is None:
        return None
    found, last = [], whole
    for place, histogram in enumerate(seen):
        last = histogram if histogram.samples else last
        found.append(Sizes(histogram=last, mean=means[place] if means else 0.0))
    return found


def _total(histograms: list[Histogram]) -> Histogram | None:
    counts = [sum(of) for of in zip(*(each.counts for each in histograms), strict=True)]
    if not any(counts):
        return None
    total = sum(each.total for each in histograms)
    return Histogram(histograms[0].edges, tuple(counts), total)


def _stretches(
    step_s: float, rates: list[float], sizes: list[tuple[Sizes, Sizes]], hits: list[float]
) -> Sequence[Measured]:
    return [
        Measured(duration_s=step_s, rps=rps, prompts=prompt, outputs=output, hit_share=hit)
        for rps, (prompt, output), hit in zip(rates, sizes, hits, strict=True)
    ]


async def _kv_tokens(server: QueryApi, asked: Question) -> int | None:
    """Of the smallest cache."""
    span = f"[{asked.end_s - asked.start_s:.0f}s]"
    config = f"last_over_time({asked.of(names.CACHE_CONFIG)}{span})"
    answer = await server.at(f"max by (block_size, num_gpu_blocks) ({config})", asked.end_s)
    try:
        found = [int(s.labels["block_size"]) * int(s.labels["num_gpu_blocks"]) for s in answer]
    except (KeyError, ValueError):
        return None
    return min(found, default=None)
