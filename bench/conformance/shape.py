"""What a load looks like: rates, lengths and what prompts share, over time. Pure."""

from __future__ import annotations

import statistics
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle, groupby
from math import ceil, gcd

from paceline_operator.autopilot.plant.workload import Workload
from paceline_operator.simulator.request import PREFIX_BLOCK_TOKENS, Request

WINDOW_S = 300.0
PEAK_S = 60.0
CACHES = 4
"""Pods among which prompts are taken to be dealt: each finds only what it computed itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Five minutes of a load.

    Attributes:
        rps: Requests per second.
        workload: What they are like.
    """

    rps: float
    workload: Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A load in figures.

    Attributes:
        requests: How many.
        span_s: Time of the last arrival.
        peak_rps: Of the busiest minute.
        output_p95: Tokens.
        workload: Of all requests; its hit rate is that of caches that forget nothing.
        stretches: In order of time; those without a request are left out.
        grid_s: Largest step whose multiples all arrivals are, to a millisecond.
    """

    requests: int
    span_s: float
    peak_rps: float
    output_p95: float
    workload: Workload
    stretches: tuple[Stretch, ...]
    grid_s: float

    @property
    def mean_rps(self) -> float:
        """Requests per second of the whole."""
        return self.requests / max(self.span_s, 1.0)


@dataclass(slots=True)
class _Sample:
    """Requests of a stretch of time, as figures."""

    prompts: array[int] = field(default_factory=lambda: array("q"))
    outputs: array[int] = field(default_factory=lambda: array("q"))
    hit_tokens: int = 0

    def workload(self) -> Workload:
        mean = statistics.fmean(self.prompts)
        return Workload(
            prompt_mean=mean,
            prompt_p50=quantile(self.prompts, 0.50),
            prompt_p95=quantile(self.prompts, 0.95),
            prompt_cv2=statistics.fmean((p / mean - 1.0) ** 2 for p in self.prompts),
            output_mean=statistics.fmean(self.outputs),
            hit_rate=self.hit_tokens / sum(self.prompts),
        )


def measure(requests: Iterable[Request], caches: int = CACHES) -> Shape:
    """The figures of a load, which is read once and not kept.

    Args:
        requests: In order of arrival.
        caches: Pods to which they go in turn, for the hit rate.

    Raises:
        ValueError: It has no request.
    """
    whole, stretches = _Sample(), []
    minutes: dict[int, int] = {}
    span_s, step_ms = 0.0, 0
    found = _with_hits(requests, caches)
    for _, group in groupby(found, key=lambda pair: pair[0].arrival_s // WINDOW_S):
        part = _Sample()
        for request, hit_tokens in group:
            for sample in (whole, part):
                sample.prompts.append(request.prompt_tokens)
                sample.outputs.append(request.output_tokens)
                sample.hit_tokens += hit_tokens
            span_s = request.arrival_s
            minute = int(span_s // PEAK_S)
            minutes[minute] = minutes.get(minute, 0) + 1
            step_ms = gcd(step_ms, round(span_s * 1e3))
        stretches.append(Stretch(rps=len(part.prompts) / WINDOW_S, workload=part.workload()))
    if not stretches:
        raise ValueError("a load without a request has no shape")
    return Shape(
        requests=len(whole.prompts),
        span_s=span_s,
        peak_rps=max(minutes.values()) / PEAK_S,
        output_p95=quantile(whole.outputs, 0.95),
        workload=whole.workload(),
        stretches=tuple(stretches),
        grid_s=step_ms / 1e3,
    )


def quantile(values: Sequence[int], share: float) -> float:
    """By nearest rank."""
    ordered = sorted(values)
    return float(ordered[max(0, ceil(share * len(ordered)) - 1)])


def _with_hits(requests: Iterable[Request], caches: int) -> Iterator[tuple[Request, int]]:
    """Each request with those of its prompt's tokens that were computed before.

    The last token is always computed, as engines do.
    """
    pods: list[set[int]] = [set() for _ in range(caches)]
    for request, seen in zip(requests, cycle(pods), strict=False):
        known = 0
        while known < len(request.prefix_blocks) and request.prefix_blocks[known] in seen:
            known += 1
        seen.update(request.prefix_blocks[known:])
        yield request, min(known * PREFIX_BLOCK_TOKENS, request.prompt_tokens - 1)
