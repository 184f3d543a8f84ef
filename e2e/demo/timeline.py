"""What the demo saw: samples of the fleet over time, as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One look at an InferenceService and its pods.

    Attributes:
        at_s: Unix time.
        budget: `max_num_batched_tokens` in force, None before it is known.
        running_seqs: Running-sequence cap in force.
        replicas: Pods that exist.
        ready: Pods that are ready.
        restarts: Container restarts, summed over the fleet's pods.
        attainment: SLO name -> attained percent, as status reports it.
        measured_ms: SLO name -> measured percentile.
        cpu_percent: Busy share of the machine since the last sample.
    """

    at_s: float
    budget: int | None = None
    running_seqs: int | None = None
    replicas: int = 0
    ready: int = 0
    restarts: int = 0
    attainment: Mapping[str, float] = field(default_factory=dict)
    measured_ms: Mapping[str, float] = field(default_factory=dict)
    cpu_percent: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One decision as status lists it."""

    at_s: float
    knob: str
    action: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTimes:
    """When one pod was made and when it first served, Unix seconds."""

    created_s: float
    ready_s: float | None = None

    @property
    def cold_start_s(self) -> float | None:
        """From creation to the first readiness, None while it never was ready."""
        return None if self.ready_s is None else self.ready_s - self.created_s


def pod_times(pod: Mapping[str, Any]) -> PodTimes:
    """Reads a pod's times; Kubernetes gives them in whole seconds."""
    conditions = pod.get("status", {}).get("conditions", [])
    ready = [c for c in conditions if c["type"] == "Ready" and c["status"] == "True"]
    return PodTimes(
        created_s=parse_time(pod["metadata"]["creationTimestamp"]),
        ready_s=parse_time(ready[0]["lastTransitionTime"]) if ready else None,
    )


def parse_time(text: str) -> float:
    """Unix time of an RFC 3339 time."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def sample_of(
    service: Mapping[str, Any],
    pods: Sequence[Mapping[str, Any]],
    *,
    at_s: float,
    cpu_percent: float,
) -> Sample:
    """Reads one sample out of the objects kubectl returned."""
    status = service.get("status", {})
    budget = status.get("budget", {})
    slos = status.get("slos", [])
    return Sample(
        at_s=at_s,
        budget=budget.get("effective") or budget.get("desired"),
        running_seqs=budget.get("runningSeqs"),
        replicas=len(pods),
        ready=sum(1 for pod in pods if is_ready(pod)),
        restarts=sum(restarts_of(pod) for pod in pods),
        attainment={s["name"]: s["attainmentPercent"] for s in slos if "attainmentPercent" in s},
        measured_ms={s["name"]: s["measuredMs"] for s in slos if "measuredMs" in s},
        cpu_percent=cpu_percent,
    )


def is_ready(pod: Mapping[str, Any]) -> bool:
    """Whether the pod's Ready condition holds and it is not being deleted."""
    conditions = pod.get("status", {}).get("conditions", [])
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]


def restarts_of(pod: Mapping[str, Any]) -> int:
    """Container restarts of one pod."""
    statuses = pod.get("status", {}).get("containerStatuses", [])
    return sum(int(s.get("restartCount", 0)) for s in statuses)


def decisions_of(service: Mapping[str, Any]) -> tuple[Decision, ...]:
    """The changes that status lists, oldest first."""
    listed = service.get("status", {}).get("decisions", [])
    found = [
        Decision(
            at_s=parse_time(d["time"]),
            knob=d["knob"],
            action=d["action"],
            reason=d["reason"],
            message=d.get("message", ""),
        )
        for d in listed
    ]
    return tuple(sorted(found, key=lambda d: d.at_s))
