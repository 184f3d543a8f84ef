"""A fleet's hour as its engines count it and Prometheus scrapes it."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import inf

from paceline_operator.autopilot.vocabulary.window import Latency
from paceline_operator.metrics import names
from paceline_operator.simulator.metering.edges import EDGES
from paceline_operator.simulator.request import Request
from tests.support.prometheus_past import Scraped

SCRAPE_S = 15.0
BLOCK_SIZE, BLOCKS = 16, 2000
HIT_SHARE = 0.25
_EDGES = (*EDGES[Latency.PROMPT_TOKENS], inf)


@dataclass
class _Pod:
    """Counters of one process, from its start to its end."""

    name: str
    start_s: float
    end_s: float
    requests: list[Request] = field(default_factory=list)


def unanswered(
    count: int, begin_s: float, length_s: float, tier: str, namespace: str = "default"
) -> Scraped:
    """Requests of a tier that one pod received, evenly, and none of which ended.

    Args:
        count: How many.
        begin_s: When, since the epoch.
        length_s: How long.
        tier: Theirs.
        namespace: Of the pod.
    """
    name = names.REQUESTS_RECEIVED.full_name
    labels = {"namespace": namespace, "pod": "chat-5d9c7-aaaaa", "model_name": "chat", "tier": tier}
    points = tuple(
        (begin_s + place * SCRAPE_S, float(round(count * place * SCRAPE_S / length_s)))
        for place in range(int(length_s // SCRAPE_S) + 1)
    )
    return Scraped(name.removesuffix("_total"), "counter", name, labels, points)


def recorded(
    requests: Sequence[Request], begin_s: float, length_s: float, namespace: str = "default"
) -> list[Scraped]:
    """Two pods share the load; the second one is replaced half-way.

    Args:
        requests: In order of arrival, from 0.
        begin_s: When, since the epoch.
        length_s: How long.
        namespace: Of the pods.
    """
    half_s = begin_s + length_s / 2
    pods = [
        _Pod("chat-5d9c7-aaaaa", begin_s - 60, begin_s + length_s + 60),
        _Pod("chat-5d9c7-bbbbb", begin_s - 60, half_s),
        _Pod("chat-5d9c7-ccccc", half_s, begin_s + length_s + 60),
    ]
    turn = random.Random(4)
    for request in requests:
        alive = [p for p in pods if p.start_s <= begin_s + request.arrival_s < p.end_s]
        turn.choice(alive).requests.append(request)
    return [series for pod in pods for series in _series(pod, begin_s, namespace)]


def _series(pod: _Pod, begin_s: float, namespace: str) -> list[Scraped]:
    count = int((pod.end_s - pod.start_s) // SCRAPE_S)
    moments = [pod.start_s + SCRAPE_S * (place + 0.3) for place in range(count)]
    arrivals = [begin_s + request.arrival_s for request in pod.requests]
    seen = [bisect_left(arrivals, moment) for moment in moments]
    labels = {"namespace": namespace, "pod": pod.name, "model_name": "chat"}
    tiered = {**labels, "tier": "interactive"}
    prompts = [request.prompt_tokens for request in pod.requests]
    outputs = [request.output_tokens for request in pod.requests]

    def counter(
        family: names.Family, per_request: Sequence[float], extra: dict[str, str]
    ) -> Scraped:
        totals = [0.0, *accumulate(per_request)]
        points = tuple((m, totals[n]) for m, n in zip(moments, seen, strict=True))
        return Scraped(
            family.full_name.removesuffix("_total"), "counter", family.full_name, extra, points
        )

    config = {**labels, "block_size": str(BLOCK_SIZE), "num_gpu_blocks": str(BLOCKS)}
    return [
        counter(names.REQUESTS_RECEIVED, [1.0] * len(prompts), tiered),
        counter(names.PROMPT_TOKENS_RECEIVED, prompts, tiered),
        counter(names.PREFIX_QUERIES, prompts, labels),
        counter(names.PREFIX_HITS, [HIT_SHARE * tokens for tokens in prompts], labels),
        *_histogram(names.PROMPT_TOKENS_HIST, prompts, tiered, moments, seen),
        *_histogram(names.GENERATION_TOKENS_HIST, outputs, tiered, moments, seen),
        Scraped(
            names.CACHE_CONFIG.full_name, "gauge", names.CACHE_CONFIG.full_name, config,
            tuple((moment, 1.0) for moment in moments),
        ),
    ]  # fmt: skip


def _histogram(
    family: names.Family,
    values: Sequence[int],
    labels: dict[str, str],
    moments: Sequence[float],
    seen: Sequence[int],
) -> list[Scraped]:
    name, found = family.full_name, []
    for edge in _EDGES:
        totals = [0, *accumulate(value <= edge for value in values)]
        points = tuple((m, float(totals[n])) for m, n in zip(moments, seen, strict=True))
        le = "+Inf" if edge == inf else str(edge)
        found.append(Scraped(name, "histogram", f"{name}_bucket", {**labels, "le": le}, points))
    sums = [0, *accumulate(values)]
    for suffix, totals in (("_sum", sums), ("_count", list(range(len(values) + 1)))):
        points = tuple((m, float(totals[n])) for m, n in zip(moments, seen, strict=True))
        found.append(Scraped(name, "histogram", name + suffix, labels, points))
    return found
