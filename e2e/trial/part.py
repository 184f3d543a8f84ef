"""One load on the fleet of the trial, from an empty namespace to figures and prediction."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from e2e.demo.host import HostMeter
from e2e.demo.observer import Observer
from e2e.job import LoadJob, LoadLog, read_log
from e2e.kubectl import KubectlError
from e2e.smoke.__main__ import Report
from e2e.smoke.site import Site, until
from e2e.trial import faults, prediction
from e2e.trial.figures import Figures, seen_figures
from e2e.trial.load import Stages, plan_of
from e2e.trial.verdict import Part
from paceline_operator.api.v1alpha1 import InferenceServiceSpec, SloMetric
from paceline_operator.autopilot.vocabulary.policy import policy_from_spec

NAME = "trial"
FLEET = Path(__file__).with_name("fleet.yaml")
TOLD_EVERY_S = 15.0
STARTED_S = 3.0
"""Of a cold start beside the load time of the spec: scheduling, containers, probes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A load that was served.

    Attributes:
        log: All that the generator recorded.
        observer: What was seen of the fleet meanwhile.
        stages: Of the load.
        outside_cpu: Share of the machine that others used in the judged part.
    """

    log: LoadLog
    observer: Observer
    stages: Stages
    outside_cpu: float

    @property
    def judged_s(self) -> tuple[float, float]:
        """Unix times between which the load is judged."""
        return self.log.started_s, self.log.started_s + self.stages.judged_s


def serve(
    site: Site, stages: Stages, report: Report, then: Callable[[], None] | None = None
) -> Served:
    """Applies the fleet and serves a load.

    Args:
        site: Where.
        stages: Of the load.
        report: Told of each step.
        then: What is done once the judged part is over, the load still running.

    Raises:
        SmokeError, KubectlError, ObserverError: It could not be carried through.
    """
    report.step("fleet", lambda: _apply(site))
    observer = Observer(site.kubectl.kubeconfig, site.kubectl.namespace, NAME)
    job = _job(site, stages)
    try:
        report.step("load", lambda: _start(job))
        begun_s, meter = time.time(), HostMeter(site.settings.programs)

        def check() -> None:
            observer.check()
            meter.outside()  # what pods used that are gone at the end is not known then

        _watch(observer, report, begun_s, begun_s + stages.judged_s, check)
        outside_cpu = meter.outside()
        if then is not None:
            then()
        # While the API server was away nothing was seen, as it should be.
        _watch(observer, report, begun_s, begun_s + stages.length_s, observer.check_running)
        report.step("load ends", lambda: _finish(job))
        log = read_log(job.lines())
    except BaseException:
        # What went wrong first is what the reader must see; the Job goes with its namespace.
        with suppress(KubectlError):
            job.delete()
        raise
    finally:
        observer.close()
    job.delete()
    return Served(log=log, observer=observer, stages=stages, outside_cpu=outside_cpu)


def figures(served: Served, report: Report) -> Part:
    """What the judged part came to, and what the simulator says of it."""
    spec = prediction.read_spec(FLEET)
    cold_start_s, idle_s = _cold_start_s(spec, served), _idle_s(served)
    predicted: list[Figures] = []

    def predict() -> str:
        predicted.append(
            prediction.predict(
                spec,
                plan_of(served.stages).requests,
                cold_start_s=cold_start_s,
                idle_s=idle_s,
                until_s=served.stages.judged_s,
            )
        )
        return f"with a cold start of {cold_start_s:.1f} s, {idle_s:.0f} s idle first, as measured"

    report.step("prediction", predict)
    return Part(
        seen=_seen(spec, served),
        predicted=predicted[0],
        cold_start_s=cold_start_s,
        idle_s=idle_s,
        host_cpu=served.observer.busy(*served.judged_s),
        outside_cpu=served.outside_cpu,
        lag_ms=served.log.lag_ms,
    )


def remove(site: Site) -> None:
    """Ends the fleet."""
    site.kubectl.run(
        *("delete", "inferenceservice", NAME, "--ignore-not-found", "--cascade=foreground"),
        "--timeout=110s",
    )


def _apply(site: Site) -> str:
    site.kubectl.apply_file(FLEET)
    least = prediction.read_spec(FLEET).scaling.min_replicas
    took_s = until(f"{least} ready engines", lambda: _ready(site) == least, 120)
    site.kubectl.wait("inferenceservice", NAME, "--for=condition=Ready", timeout_s=60)
    until("first live values in force", lambda: faults.is_followed(site), 60)
    return f"{least} engines ready after {took_s:.0f} s"


def _ready(site: Site) -> int:
    return int(site.service().get("status", {}).get("readyReplicas", 0))


def _job(site: Site, stages: Stages) -> LoadJob:
    url = f"http://{NAME}.{site.kubectl.namespace}:8000"
    deadline_s = int(stages.length_s + stages.spare_s) + 120
    return LoadJob(
        site.kubectl, site.host, "trial-load", stages.arguments(url, NAME), deadline_s=deadline_s
    )


def _start(job: LoadJob) -> str:
    job.start()
    job.wait_running()
    return "started"


def _finish(job: LoadJob) -> str:
    job.finish()
    job.wait_complete()
    return "all answers are in"


def _watch(
    observer: Observer, report: Report, begun_s: float, until_s: float, check: Callable[[], None]
) -> None:
    """Says now and then what the fleet does, until a time; ends as soon as the check fails."""
    while (now_s := time.time()) < until_s:
        seen = observer.last
        print(
            f"[{report.seconds:6.1f}s]   load {now_s - begun_s:4.0f} s: replicas "
            f"{seen.ready}/{seen.replicas}, budget {seen.budget or '-'}, host CPU "
            f"{seen.cpu_percent:.0f} %",
            flush=True,
        )
        check()
        time.sleep(min(TOLD_EVERY_S, max(0.1, until_s - time.time())))
    check()


def _seen(spec: InferenceServiceSpec, served: Served) -> Figures:
    policy = policy_from_spec(spec)
    itl = policy.of_metric(SloMetric.ITL)[0]
    return seen_figures(
        served.log.records,
        [(sample.at_s, sample.replicas, sample.ready) for sample in served.observer.samples],
        span_s=served.judged_s,
        ttft_target_ms=policy.of_metric(SloMetric.TTFT)[0].target_ms,
        itl_target_ms=itl.target_ms,
        itl_percentile=itl.percentile,
    )


def _cold_start_s(spec: InferenceServiceSpec, served: Served) -> float:
    """Median of the pods that were made under load, else what the spec leads to expect."""
    begun_s, ends_s = served.judged_s
    made = [pod for pod in served.observer.pods.values() if begun_s <= pod.created_s < ends_s]
    known = [pod.cold_start_s for pod in made if pod.cold_start_s is not None]
    return statistics.median(known) if known else (spec.engine.device.load_seconds or 0) + STARTED_S


def _idle_s(served: Served) -> float:
    """From the last of the first pods ready to the first request."""
    begun_s, _ = served.judged_s
    ready_s = [
        pod.ready_s
        for pod in served.observer.pods.values()
        if pod.ready_s is not None and pod.ready_s <= begun_s
    ]
    return begun_s - max(ready_s, default=begun_s)
