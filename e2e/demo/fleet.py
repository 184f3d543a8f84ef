"""The simulated fleet: a threefold load step, met by live moves first and replicas second."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from e2e.demo import manifest, prompt
from e2e.demo.follow import follow
from e2e.demo.live import LiveTable
from e2e.demo.manifest import Manifest
from e2e.demo.observer import Observer
from e2e.demo.timeline import Decision, PodTimes, Sample
from e2e.job import LoadJob
from e2e.load.record import Record
from e2e.stand import Stand

READY_S = 120
BEFORE_S = 45.0
STEP_S = 150.0
AFTER_S = 90.0
LOAD = (
    *("--plan", "step", "--rate", "1.8", "--factor", "3"),
    *("--before", f"{BEFORE_S:g}", "--duration", f"{STEP_S:g}", "--after", f"{AFTER_S:g}"),
    *("--mix", "chat:0.7:700-1300:12-24,long:0.3:1800-2400:8-12", "--vocabulary", "bytes"),
    *("--seed", "23", "--max-requests", "2500", "--json"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPart:
    """What the simulated part showed; times are Unix seconds.

    Attributes:
        started_s: When the load began.
        stepped_s: When it tripled.
        fell_s: When it fell back.
        ended_s: When it ended.
        cold_start_s: Median of the replicas added after the step, None without any.
        first_serving_s: When the first of them served.
        host_cpu: Busy share of the machine during the step, None on a cluster elsewhere.
        lag_ms: 99th percentile of how late requests left.
    """

    manifest: Manifest
    records: Sequence[Record]
    samples: Sequence[Sample]
    decisions: Sequence[Decision]
    started_s: float
    stepped_s: float
    fell_s: float
    ended_s: float
    cold_start_s: float | None
    first_serving_s: float | None
    host_cpu: float | None
    lag_ms: float


def run(stand: Stand) -> FleetPart:
    """Runs the part from `kubectl apply` to the fall of the load."""
    sample = manifest.read("fleet-simulated")
    prompt.apply(stand.kubectl, sample)
    stand.kubectl.wait("inferenceservice", sample.name, "--for=condition=Ready", timeout_s=READY_S)
    prompt.run(stand.kubectl, "get", prompt.KIND, sample.name)
    observer = Observer(stand.kubectl.kubeconfig, stand.namespace, sample.name, stand.context)
    try:
        part = _under_load(stand, sample, observer)
    finally:
        observer.close()
    print(flush=True)
    prompt.run(stand.kubectl, "paceline", "explain", sample.name)
    return part


def _under_load(stand: Stand, sample: Manifest, observer: Observer) -> FleetPart:
    url = f"http://{sample.name}.{stand.namespace}:8000"
    args = ("--url", url, "--model", sample.model, *LOAD)
    job = LoadJob(stand.kubectl, stand.host, "demo-load-fleet", args, deadline_s=600)
    title = "Simulated engines, 70B on four A100: load times three and back"
    table = LiveTable(title, observer, sample.ttft_target_ms, sample.itl_target_ms)
    try:
        job.start()
        job.wait_running()
        log = follow(job, table, phase_at)
    finally:
        job.delete()
    observer.check()
    started_s = log.started_s
    stepped_s, fell_s = started_s + BEFORE_S, started_s + BEFORE_S + STEP_S
    times = serving_after(tuple(observer.pods.values()), stepped_s)
    starts = [pod.cold_start_s for pod in times if pod.cold_start_s is not None]
    return FleetPart(
        manifest=sample,
        records=log.records,
        samples=tuple(observer.samples),
        decisions=observer.decisions,
        started_s=started_s,
        stepped_s=stepped_s,
        fell_s=fell_s,
        ended_s=fell_s + AFTER_S,
        cold_start_s=statistics.median(starts) if starts else None,
        first_serving_s=min((p.ready_s for p in times if p.ready_s is not None), default=None),
        host_cpu=observer.busy(stepped_s, fell_s) if stand.settings.provider == "built" else None,
        lag_ms=log.lag_ms,
    )


def phase_at(elapsed_s: float) -> str:
    """What the load does at a time."""
    if elapsed_s < BEFORE_S:
        return "before the step"
    if elapsed_s < BEFORE_S + STEP_S:
        return "load times three"
    return "load has fallen" if elapsed_s < BEFORE_S + STEP_S + AFTER_S else "load ends"


def serving_after(pods: Sequence[PodTimes], at_s: float) -> list[PodTimes]:
    """Pods made after a time that came to serve, by when they did.

    Kubernetes' times are cut to whole seconds, so a pod made in the same second counts.
    """
    late = [pod for pod in pods if pod.created_s >= int(at_s) and pod.ready_s is not None]
    return sorted(late, key=lambda pod: pod.ready_s or 0.0)
