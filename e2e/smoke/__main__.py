"""`python -m e2e.smoke`: five minutes of what an operator must survive, on a real cluster.

Ends with `smoke: ok requests=… lost=… lost_on_killed_engine=… seconds=…`; exit 0 for ok only.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from e2e import interruption
from e2e.cluster.errors import ClusterError
from e2e.cluster.settings import Settings, from_environment
from e2e.install import InstallError
from e2e.job import LoadJob, read_log
from e2e.kubectl import KubectlError
from e2e.smoke import checks, faults
from e2e.smoke.losses import EngineKill, Fault
from e2e.smoke.result import Result, judge
from e2e.smoke.site import NAME, Site, SmokeError
from e2e.stand import Stand, stand

NAMESPACE = "paceline-smoke"
LOAD_S = 300
"""At most: the load ends once the last fault is mended."""
RATE_RPS = 2.5
INTERRUPTED = 130


@dataclass(slots=True)
class Report:
    """Prints each step with the time since the start."""

    started: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self.started

    def step(self, name: str, run: Callable[[], str]) -> None:
        """Runs one step and says how it went."""
        print(f"[{self.seconds:6.1f}s] {name} ...", flush=True)
        words = run()
        print(f"[{self.seconds:6.1f}s]   {words}", flush=True)


def main() -> int:
    """Entry point."""
    report = Report()
    try:
        with interruption.raised():
            settings = from_environment()
            require_own_cluster(settings)
            with stand(NAMESPACE, keep_cluster=False) as place:
                result = _run(place, report)
    except (SmokeError, KubectlError, InstallError, ClusterError) as error:
        print(f"smoke: short {error}", flush=True)
        return 1
    except KeyboardInterrupt:
        print("smoke: interrupted; what it had started is removed", flush=True)
        return INTERRUPTED
    for line in result.reasons:
        print(f"  {line}")
    print(f"{result.line} seconds={report.seconds:.0f}", flush=True)
    return 0 if result.ok else 1


def require_own_cluster(settings: Settings) -> None:
    """Refuses a cluster that it may not break.

    Raises:
        SmokeError: It is somebody else's.
    """
    if settings.provider != "built":
        raise SmokeError(
            f"it kills the API server, which context {settings.context} is not there for; "
            "unset PACELINE_CLUSTER and PACELINE_KUBE_CONTEXT to run it on the test cluster"
        )


def _run(place: Stand, report: Report) -> Result:
    site = Site(place.settings, place.kubectl, place.system, place.host)
    report.step("apply", lambda: checks.apply_and_wait(site))
    report.step("apply again", lambda: checks.apply_again(site))
    report.step("scale in mode Off", lambda: checks.scale_off(site))
    job, spans, kills = _load(site), list[Fault](), list[EngineKill]()
    report.step("load", lambda: _start(job))
    report.step("kill the operator", lambda: _kill_operator(site, spans))
    report.step("kill an engine", lambda: _kill_engine(site, spans, kills))
    report.step("kill the API server", lambda: _kill_api_server(site, spans))
    report.step("load ends", lambda: _finish(job))
    records = read_log(job.lines()).records
    report.step("scale in mode Auto", lambda: checks.scale_auto(site))
    report.step("delete without operator", lambda: checks.delete_without_operator(site))
    job.delete()
    return judge(records, kills[0], spans)


def _load(site: Site) -> LoadJob:
    args = (
        *("--url", f"http://{NAME}.{site.kubectl.namespace}:8000", "--model", NAME),
        *("--plan", "steady", "--rate", str(RATE_RPS), "--duration", str(LOAD_S)),
        *("--mix", "chat:1:32-64:128-256", "--vocabulary", "bytes", "--seed", "7", "--json"),
    )
    return LoadJob(site.kubectl, site.host, "smoke-load", args, deadline_s=LOAD_S + 120)


def _start(job: LoadJob) -> str:
    job.start()
    job.wait_running()
    time.sleep(5)
    return f"{RATE_RPS} requests/s until the last fault is mended"


def _kill_operator(site: Site, spans: list[Fault]) -> str:
    fault = faults.kill_operator(site)
    spans.append(fault)
    return f"leads again after {fault.to_s - fault.from_s:.1f} s"


def _kill_engine(site: Site, spans: list[Fault], kills: list[EngineKill]) -> str:
    fault, kill = faults.kill_engine(site)
    spans.append(fault)
    kills.append(kill)
    return f"engine at {kill.pod_ip} killed with {kill.held} requests, and replaced"


def _kill_api_server(site: Site, spans: list[Fault]) -> str:
    fault = faults.kill_api_server(site)
    spans.append(fault)
    reported_s = time.time() - fault.to_s
    return f"away {fault.to_s - fault.from_s:.0f} s; all report again {reported_s:.1f} s later"


def _finish(job: LoadJob) -> str:
    job.finish()
    job.wait_complete()
    return f"{len(read_log(job.lines()).records)} answers are in"


if __name__ == "__main__":
    sys.exit(main())
