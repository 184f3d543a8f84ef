"""Short forms for what policies see."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from paceline_operator.autopilot.vocabulary.fleet import DataClass, FleetObservation, PodObservation
from paceline_operator.autopilot.vocabulary.window import (
    Counter,
    Histogram,
    Latency,
    StepClass,
    Window,
)
from tests.operator.autopilot.build import fleet, moments, pod, window

__all__ = ["fleet", "gauges", "histogram", "moments", "pending", "pod", "slices", "stale", "window"]


def gauges(*waiting: int, **more: Any) -> FleetObservation:
    """Serving pods with so many waiting requests each."""
    made = tuple(pod(n + 1, waiting=each) for n, each in enumerate(waiting))
    return fleet(made, **more)


def pending(number: int) -> PodObservation:
    """A pod that starts."""
    return pod(number, ready=False, ready_since_s=None, data=DataClass.ABSENT, tunables=None)


def stale(number: int, **more: Any) -> PodObservation:
    """A serving pod whose last scrapes failed."""
    return pod(number, data=DataClass.STALE, **more)


def histogram(value: float, samples: float = 100.0) -> Histogram:
    """All samples in a narrow bucket that ends at `value`: every quantile is nearly that."""
    edges = (value * (1 - 1e-9), value, float("inf"))
    return Histogram(edges, (0.0, samples, 0.0), value * samples)


def slices(count: int, **more: Any) -> tuple[Window, ...]:
    """Adjoining slices of 5 s with the same content, the newest ending at 1000 s."""
    starts = [1000.0 - 5.0 * (count - n) for n in range(count)]
    return tuple(window(start_s, start_s + 5.0, **more) for start_s in starts)


def busy(share: float, pods: int) -> tuple[Window, ...]:
    """Three slices in which engines were busy for this share of the time."""
    counters = {Counter.BUSY_SECONDS: 5.0 * share * pods}
    return tuple(replace(each, pod_seconds=5.0 * pods) for each in slices(3, counters=counters))


STEPS = (
    (200.0, 5000.0),
    (200.0, 7000.0),
    (400.0, 5000.0),
    (400.0, 7000.0),
    (200.0, 9000.0),
    (400.0, 9000.0),
)
"""(Prompt tokens, KV tokens) of the mixed steps of `learned`; 300 and 7000 on average."""


def step_s(prefill: float, kv: float) -> float:
    """The law of the steps below: 10 ms, 0.05 ms a prompt token, 0.0001 ms a KV token."""
    return 0.010 + 5e-5 * prefill + 1e-7 * kv


def learned(requests: float = 1.0, prompt: float = 500.0, answer: float = 100.0) -> Any:
    """Six slices, each with one decode-only and one mixed step of 10 rows under that law."""
    made = []
    for place, (prefill, kv) in enumerate(STEPS):
        made.append(
            window(
                970.0 + 5.0 * place,
                975.0 + 5.0 * place,
                steps={
                    StepClass.DECODE_ONLY: moments((0.0, 10.0, kv, 0.0, step_s(0.0, kv))),
                    StepClass.MIXED: moments((prefill, 10.0, kv, 0.0, step_s(prefill, kv))),
                },
                counters={
                    Counter.REQUESTS_RECEIVED: requests,
                    Counter.PROMPT_TOKENS_RECEIVED: requests * prompt,
                },
                histograms={Latency.GENERATION_TOKENS: histogram(answer, samples=requests)},
            )
        )
    return tuple(made)
