"""Reads counters off the engines of a fleet, through the API server."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from e2e.kubectl import Kubectl, KubectlError

_STEPS = re.compile(
    r'^paceline_engine_step_moments_total\{[^}]*class="(\w+)"[^}]*term="n"[^}]*\} (\S+)$', re.M
)

TRIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCounts:
    """Engine steps since the engines' start, summed over a fleet.

    Attributes:
        all_steps: Steps; each has running requests.
        decoding: Steps with decode rows: those that end gaps between tokens.
    """

    all_steps: int
    decoding: int

    def __sub__(self, other: StepCounts) -> StepCounts:
        return StepCounts(
            all_steps=self.all_steps - other.all_steps, decoding=self.decoding - other.decoding
        )


def step_counts(texts: Iterable[str]) -> StepCounts:
    """Sums the steps in the engines' metrics."""
    by_class: dict[str, float] = {}
    for text in texts:
        for name, value in _STEPS.findall(text):
            by_class[name] = by_class.get(name, 0.0) + float(value)
    return StepCounts(
        all_steps=round(sum(by_class.values())),
        decoding=round(by_class.get("decode_only", 0.0) + by_class.get("mixed", 0.0)),
    )


def pods_of(kubectl: Kubectl, service: str) -> list[str]:
    """Names of a fleet's pods."""
    selector = kubectl.json("get", "inferenceservice", service)["status"]["selector"]
    listed = kubectl.json("get", "pods", "-l", selector)["items"]
    return [pod["metadata"]["name"] for pod in listed]


def read_steps(kubectl: Kubectl, service: str) -> StepCounts:
    """Steps of a fleet so far; a pod that is slow to answer is asked again.

    Raises:
        KubectlError: One did not answer three times.
    """
    return step_counts(_patiently(kubectl, pod) for pod in pods_of(kubectl, service))


def _patiently(kubectl: Kubectl, pod: str) -> str:
    for _ in range(TRIES - 1):
        try:
            return kubectl.pod_metrics(pod)
        except KubectlError:
            continue
    return kubectl.pod_metrics(pod)
