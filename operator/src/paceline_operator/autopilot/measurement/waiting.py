"""Requests that wait, as far as requests that came can account for them.

An engine that does not take back what it counted, when a client goes away, shows a backlog for
good; whoever believes it never gives a replica back.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from paceline_operator.autopilot.vocabulary.fleet import FleetObservation, PodObservation
from paceline_operator.autopilot.vocabulary.window import Counter, Latency, StepClass, Window

LATELY_S = 60.0
FRESH_S = 30.0
"""What came within that time may all wait still, however short others waited."""
LONGEST_S = 300.0
"""As far as measurements reach back."""
FULL_SHARE = 0.9
"""Of its KV blocks in use: an engine may then take none for long, whoever waits."""
COVERED_SHARE = 0.8
"""Of the time that pods served: where less was measured, more may have come."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """On all serving pods.

    Attributes:
        requests: Of both tiers.
        interactive: Those of the interactive tier.
        tokens: Their prompt tokens that are not processed yet.
    """

    requests: float
    interactive: float
    tokens: float


def waiting(fleet: FleetObservation) -> Waiting:
    """What waits: all that is said on pods that are full, on others no more than can have come.

    Requests are taken in the order in which they came: those that wait came after those that
    were taken, so within as long as the longest of these had to wait.
    """
    others = sum(pod.waiting for pod in fleet.serving if not _is_full(pod))
    most = _most(fleet) if others else inf
    share = 1.0 if others <= most else most / others
    parts = [(pod, 1.0 if _is_full(pod) else share) for pod in fleet.serving]
    return Waiting(
        requests=sum(part * pod.waiting for pod, part in parts),
        interactive=sum(part * (pod.waiting - pod.batch_waiting) for pod, part in parts),
        tokens=sum(part * pod.waiting_tokens for pod, part in parts),
    )


def _is_full(pod: PodObservation) -> bool:
    """Whether an engine has a reason to let requests wait for as long as it takes."""
    report = pod.tunables
    is_at_cap = report is None or pod.running >= report.running_seqs
    return is_at_cap or pod.kv_usage >= FULL_SHARE


def _most(fleet: FleetObservation) -> float:
    """Requests that may wait, by those that came; any number where too little is known."""
    span_s = FRESH_S + _longest_s(fleet.last(LATELY_S))
    if span_s > LONGEST_S:
        return inf
    window = fleet.last(span_s)
    is_covered = window.pod_seconds >= COVERED_SHARE * _served_s(fleet, window)
    if not is_covered or window.length_s < COVERED_SHARE * span_s:
        return inf
    return window.count(Counter.REQUESTS_RECEIVED) + window.count(Counter.PREEMPTIONS)


def _longest_s(lately: Window) -> float:
    """How long requests have waited lately: the upper edge of the last bucket with one that did.

    Where none was taken although prompts are computed, a long prompt holds up all behind it.
    """
    taken = lately.histogram(Latency.QUEUE)
    if not taken.samples:
        computes = lately.moments(StepClass.MIXED, StepClass.PREFILL_ONLY).count > 0
        return LONGEST_S - FRESH_S if computes else 0.0
    pairs = zip(taken.edges, taken.counts, strict=True)
    return max(edge for edge, count in pairs if count > 0)


def _served_s(fleet: FleetObservation, window: Window) -> float:
    """Pod-seconds of the pods that serve, within a window."""
    starts_s = (max(window.start_s, pod.ready_since_s or 0.0) for pod in fleet.serving)
    return sum(max(0.0, window.end_s - start_s) for start_s in starts_s)
