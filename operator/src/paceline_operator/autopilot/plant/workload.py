"""What requests look like and what steps carry, from the last minutes of measurements."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt

from paceline_operator.autopilot.vocabulary.fleet import FleetObservation
from paceline_operator.autopilot.vocabulary.memory import Memory, Shape
from paceline_operator.autopilot.vocabulary.window import (
    BATCH,
    INTERACTIVE,
    Counter,
    Histogram,
    Latency,
    StepClass,
    Window,
)

_Z95 = 1.645
_LOAD_WINDOW_S = 60.0
_SHAPE_WINDOW_S = 300.0
_CHANGED_WITHIN_S = (10.0, 20.0, 30.0, 60.0, 120.0)
_CHANGED_SIGMAS = 4.0
_LEAST_REQUESTS = 20.0
_ENOUGH_REQUESTS = 100.0
"""Fewer say little of the longest prompts, which decide."""
_REMEMBERED_S = 900.0
_ENOUGH_FINISHED = 5
_MOST_LONGER = 2.0
"""How many times as long as those that ended answers are taken to be at most."""
_TOKENS_ASSUMED = 128.0
_MOST_FOUND = 0.95
"""No cache holds a whole prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Shape of the requests and load of the steps, for one replica.

    Attributes:
        prompt_mean: Tokens of a prompt.
        prompt_p50: Median of it.
        prompt_p95: Its 95th percentile.
        prompt_p99: Its 99th percentile, 0 where nobody knows.
        prompt_cv2: Variance over squared mean.
        output_mean: Tokens of an answer.
        answers: Answers that ended behind it; 0 where those of a batch tier are among them.
        hit_rate: Share of prompt tokens found in the prefix cache.
        rows_p95: Decoding sequences of a step.
        kv_p95: Resident KV tokens of a step.
        context: Context a prefill token attends to, root mean square over tokens.
        steps: Steps behind rows and KV.
        requests: Requests behind the shape.
    """

    prompt_mean: float = _TOKENS_ASSUMED
    prompt_p50: float = _TOKENS_ASSUMED
    prompt_p95: float = _TOKENS_ASSUMED
    prompt_p99: float = 0.0
    prompt_cv2: float = 0.0
    output_mean: float = _TOKENS_ASSUMED
    answers: float = 0.0
    hit_rate: float = 0.0
    rows_p95: float = 1.0
    kv_p95: float = 0.0
    context: float = 0.0
    steps: float = 0.0
    requests: float = 0.0

    @property
    def computed_share(self) -> float:
        """Share of prompt tokens that have to be computed."""
        return 1.0 - self.hit_rate

    @property
    def context_or_usual(self) -> float:
        """Context a prefill token attends to: half a prompt, until it was measured."""
        return self.context or self.prompt_mean / 2

    def prompt_at(self, share: float) -> float:
        """Quantile of the prompts' length, on the lines between those that are known."""
        above = min(1.0, max(0.0, (share - 0.50) / 0.45))
        beyond = min(1.0, max(0.0, (share - 0.95) / 0.04))
        found = self.prompt_p50 + above * (self.prompt_p95 - self.prompt_p50)
        return found + beyond * max(0.0, self.prompt_p99 - self.prompt_p95)


def observe(fleet: FleetObservation) -> Workload:
    """The workload behind the fleet's slices."""
    usual, load = fleet.last(_SHAPE_WINDOW_S), fleet.last(_LOAD_WINDOW_S)
    shape = _shape_window(fleet, usual)
    decoding = load.moments(StepClass.DECODE_ONLY, StepClass.MIXED)
    prompts = shape.histogram(Latency.PROMPT_TOKENS)
    mean = _prompt_mean(shape)
    return Workload(
        prompt_mean=mean,
        prompt_p50=_quantile(shape, 0.50, mean),
        prompt_p95=_quantile(shape, 0.95, mean),
        prompt_p99=_quantile(shape, 0.99, mean),
        prompt_cv2=prompts.squared_variation,
        output_mean=_output_mean(shape, usual),
        answers=_answers(shape),
        hit_rate=hit_rate(shape),
        rows_p95=max(1.0, decoding.mean("d") + _Z95 * decoding.spread("d")),
        kv_p95=decoding.mean("k") + _Z95 * decoding.spread("k"),
        context=_context(shape),
        steps=decoding.count,
        requests=shape.count(Counter.REQUESTS_RECEIVED),
    )


def known(fleet: FleetObservation, memory: Memory, now_s: float) -> tuple[Workload, Memory]:
    """The workload, its requests as remembered while too few were seen to tell; and the memory.

    After a restart, or an outage of the metrics, a handful of requests is all there is; only
    where chance does not explain how they differ they count.
    """
    seen, shape = observe(fleet), memory.shape
    requests = fleet.last(_SHAPE_WINDOW_S).count(Counter.REQUESTS_RECEIVED)
    if requests >= _ENOUGH_REQUESTS:
        return seen, replace(memory, shape=_shape(seen, now_s))
    if shape is None or now_s - shape.seen_at_s > _REMEMBERED_S or _are_others(seen, shape):
        return seen, memory
    return _shaped(seen, shape), memory


def _shape(seen: Workload, now_s: float) -> Shape:
    return Shape(
        seen_at_s=now_s,
        prompt_mean=seen.prompt_mean,
        prompt_p50=seen.prompt_p50,
        prompt_p95=seen.prompt_p95,
        prompt_p99=seen.prompt_p99,
        prompt_cv2=seen.prompt_cv2,
        output_mean=seen.output_mean,
        hit_rate=seen.hit_rate,
    )


def _shaped(seen: Workload, shape: Shape) -> Workload:
    return replace(
        seen,
        prompt_mean=shape.prompt_mean,
        prompt_p50=shape.prompt_p50,
        prompt_p95=shape.prompt_p95,
        prompt_p99=shape.prompt_p99,
        prompt_cv2=shape.prompt_cv2,
        output_mean=shape.output_mean,
        hit_rate=shape.hit_rate,
    )


def _are_others(seen: Workload, shape: Shape) -> bool:
    """Whether chance does not explain how requests differ from those remembered."""
    if seen.requests < _LEAST_REQUESTS:
        return False
    spread = shape.prompt_mean * sqrt(shape.prompt_cv2 / seen.requests)
    apart = abs(seen.prompt_mean - shape.prompt_mean) > _CHANGED_SIGMAS * spread
    return apart or _found_less(seen.hit_rate - shape.hit_rate, seen.requests)


def _found_less(difference: float, requests: float) -> bool:
    """Or more: no request finds less than nothing or more than all, which bounds the spread."""
    return abs(difference) > _CHANGED_SIGMAS * 0.5 / sqrt(requests)


def _shape_window(fleet: FleetObservation, usual: Window) -> Window:
    """The last five minutes, or what came since requests have become others.

    A change is one that chance does not explain, of the prompts' length or of what the prefix
    cache holds of them: what came before it says nothing about what must be carried now.
    """
    for span_s in _CHANGED_WITHIN_S:
        lately = fleet.last(span_s)
        if _differs(lately, usual):
            return lately
    return usual


def _differs(lately: Window, usual: Window) -> bool:
    requests = lately.count(Counter.REQUESTS_RECEIVED)
    if requests < _LEAST_REQUESTS:
        return False
    mean = _prompt_mean(usual)
    spread = mean * sqrt(_prompts(usual).squared_variation / requests)
    if abs(_prompt_mean(lately) - mean) > _CHANGED_SIGMAS * spread > 0.0:
        return True
    return _found_less(hit_rate(lately) - hit_rate(usual), requests)


def _prompts(window: Window) -> Histogram:
    """Of both tiers, as their mean is."""
    own, others = (window.histogram(Latency.PROMPT_TOKENS, tier) for tier in (INTERACTIVE, BATCH))
    return own + others


def _answers(window: Window) -> float:
    if window.count(Counter.BATCH_TOKENS_RECEIVED):
        return 0.0
    return window.histogram(Latency.GENERATION_TOKENS).samples


def _prompt_mean(window: Window) -> float:
    requests = window.count(Counter.REQUESTS_RECEIVED)
    if requests:
        return max(1.0, window.count(Counter.PROMPT_TOKENS_RECEIVED) / requests)
    return window.histogram(Latency.PROMPT_TOKENS).mean or _TOKENS_ASSUMED


def _quantile(window: Window, share: float, fallback: float) -> float:
    found = window.histogram(Latency.PROMPT_TOKENS).quantile(share)
    return fallback if found is None else max(1.0, found)


def _output_mean(window: Window, usual: Window) -> float:
    """Long answers end late, so the mean of those that ended is too short while they begin.

    What was made over how many ended is the mean that answers of exponential length most likely
    have, those that still run included (as for lifetimes censored at the end of a test: Epstein
    and Sobel, 1953). Over a few seconds it says little, since what ends was begun before.
    """
    ended = window.histogram(Latency.GENERATION_TOKENS)
    if ended.samples < _ENOUGH_FINISHED:
        return max(_TOKENS_ASSUMED, ended.mean)
    # Tokens of those who left before the end were made too.
    ends = max(ended.samples, window.count(Counter.REQUESTS_FINISHED))
    if window is not usual or ends < _LEAST_REQUESTS:
        return max(1.0, ended.mean)
    likely = window.count(Counter.GENERATION_TOKENS) / ends
    return max(1.0, ended.mean, min(likely, _MOST_LONGER * ended.mean))


def hit_rate(window: Window) -> float:
    """Share of prompt tokens that prefix caches held, of those that were looked up."""
    queried = window.count(Counter.PREFIX_QUERIES_TOKENS)
    hits = window.count(Counter.PREFIX_HITS_TOKENS)
    return min(_MOST_FOUND, hits / queried) if queried else 0.0


def _context(window: Window) -> float:
    prefill = window.moments(StepClass.MIXED, StepClass.PREFILL_ONLY)
    squared = prefill.of("pp")
    return sqrt(prefill.of("xx") / squared) if squared else 0.0
