"""What requests look like and what steps carry, from the last minutes of measurements."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from paceline_operator.autopilot.fleet import FleetObservation
from paceline_operator.autopilot.window import Counter, Latency, StepClass, Window

_Z95 = 1.645
_LOAD_WINDOW_S = 60.0
_SHAPE_WINDOW_S = 300.0
_CHANGED_WITHIN_S = (30.0, 60.0, 120.0)
_CHANGED_SIGMAS = 4.0
_LEAST_REQUESTS = 20.0
_ENOUGH_FINISHED = 5
_TOKENS_ASSUMED = 128.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Shape of the requests and load of the steps, for one replica.

    Attributes:
        prompt_mean: Tokens of a prompt.
        prompt_p50: Median of it.
        prompt_p95: Its 95th percentile.
        prompt_cv2: Variance over squared mean.
        output_mean: Tokens of an answer.
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
    prompt_cv2: float = 0.0
    output_mean: float = _TOKENS_ASSUMED
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

    def prompt_at(self, share: float) -> float:
        """Quantile of the prompts' length, on the line through the two known ones."""
        above = min(1.0, max(0.0, (share - 0.50) / 0.45))
        return self.prompt_p50 + above * (self.prompt_p95 - self.prompt_p50)


def observe(fleet: FleetObservation) -> Workload:
    """The workload behind the fleet's slices."""
    shape, load = _shape_window(fleet), fleet.last(_LOAD_WINDOW_S)
    decoding = load.moments(StepClass.DECODE_ONLY, StepClass.MIXED)
    prompts = shape.histogram(Latency.PROMPT_TOKENS)
    mean = _prompt_mean(shape)
    return Workload(
        prompt_mean=mean,
        prompt_p50=_quantile(shape, 0.50, mean),
        prompt_p95=_quantile(shape, 0.95, mean),
        prompt_cv2=prompts.squared_variation,
        output_mean=_output_mean(shape),
        hit_rate=_hit_rate(shape),
        rows_p95=max(1.0, decoding.mean("d") + _Z95 * decoding.spread("d")),
        kv_p95=decoding.mean("k") + _Z95 * decoding.spread("k"),
        context=_context(shape),
        steps=decoding.count,
        requests=shape.count(Counter.REQUESTS_RECEIVED),
    )


def _shape_window(fleet: FleetObservation) -> Window:
    """The last five minutes, or what came since requests have become others.

    A change is one that chance does not explain, of the prompts' length or of what the prefix
    cache holds of them: what came before it says nothing about what must be carried now.
    """
    usual = fleet.last(_SHAPE_WINDOW_S)
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
    spread = mean * sqrt(usual.histogram(Latency.PROMPT_TOKENS).squared_variation / requests)
    if abs(_prompt_mean(lately) - mean) > _CHANGED_SIGMAS * spread > 0.0:
        return True
    # No request finds less than nothing or more than all: that bounds the spread of a share.
    return abs(_hit_rate(lately) - _hit_rate(usual)) > _CHANGED_SIGMAS * 0.5 / sqrt(requests)


def _prompt_mean(window: Window) -> float:
    requests = window.count(Counter.REQUESTS_RECEIVED)
    if requests:
        return max(1.0, window.count(Counter.PROMPT_TOKENS_RECEIVED) / requests)
    return window.histogram(Latency.PROMPT_TOKENS).mean or _TOKENS_ASSUMED


def _quantile(window: Window, share: float, fallback: float) -> float:
    found = window.histogram(Latency.PROMPT_TOKENS).quantile(share)
    return fallback if found is None else max(1.0, found)


def _output_mean(window: Window) -> float:
    """Long answers end late, so an early mean is too short: then what was made counts too."""
    ended = window.histogram(Latency.GENERATION_TOKENS)
    if ended.samples >= _ENOUGH_FINISHED:
        return max(1.0, ended.mean)
    return max(_TOKENS_ASSUMED, ended.mean)


def _hit_rate(window: Window) -> float:
    queried = window.count(Counter.PREFIX_QUERIES_TOKENS)
    hits = window.count(Counter.PREFIX_HITS_TOKENS)
    return min(0.95, hits / queried) if queried else 0.0


def _context(window: Window) -> float:
    prefill = window.moments(StepClass.MIXED, StepClass.PREFILL_ONLY)
    squared = prefill.of("pp")
    return sqrt(prefill.of("xx") / squared) if squared else 0.0
