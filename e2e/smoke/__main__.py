"""`python -m e2e.smoke`: five minutes of what an operator must survive, on a real cluster.

Ends with `smoke: ok requests=… lost=… lost_on_killed_engine=… seconds=…`; exit 0 for ok only.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from e2e.cluster.errors import ClusterError
from e2e.install import InstallError
from e2e.job import LoadJob, read_log
from e2e.kubectl import KubectlError
from e2e.smoke import checks, faults
from e2e.smoke.losses import Losses, explain
from e2e.smoke.site import NAME, Site, SmokeError
from e2e.stand import Stand, stand

NAMESPACE = "paceline-smoke"
LOAD_S = 150
RATE_RPS = 2.5


class Report:
    """Prints each step with the time since the start."""

    def __init__(self) -> None:
        self.started = time.monotonic()

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self.started

    def step(self, name: str, run: Callable[[], str]) -> None:
        """Runs one step and says how it went."""
        print(f"[{self.seconds:6.1f}s] {name} ...", flush=True)
        print(f"[{self.seconds:6.1f}s]   {run()}", flush=True)


def main() -> int:
    """Entry point."""
    report = Report()
    try:
        with stand(NAMESPACE, keep_cluster=False) as place:
            records, losses = _run(place, report)
    except (SmokeError, KubectlError, InstallError, ClusterError) as error:
        print(f"smoke: short {error}", flush=True)
        return 1
    word = "short" if losses.unexplained or not records else "ok"
    for record in losses.unexplained[:10]:
        print(f"  lost: request {record.id} at {record.sent_s:.1f}: {record.error}")
    print(
        f"smoke: {word} requests={records} lost={len(losses.unexplained)} "
        f"lost_on_killed_engine={len(losses.on_killed)} seconds={report.seconds:.0f}",
        flush=True,
    )
    return 0 if word == "ok" else 1


def _run(place: Stand, report: Report) -> tuple[int, Losses]:
    site = Site(place.settings, place.kubectl, place.system, place.host)
    report.step("apply", lambda: checks.apply_and_wait(site))
    report.step("apply again", lambda: checks.apply_again(site))
    report.step("scale in mode Off", lambda: checks.scale_off(site))
    job = _load(site)
    report.step("load", lambda: _start(job))
    report.step("kill the operator", lambda: faults.kill_operator(site))
    kills: list[faults.EngineKill] = []
    report.step("kill an engine", lambda: _kill_engine(site, kills))
    report.step("kill the API server", lambda: faults.kill_api_server(site))
    report.step("load ends", lambda: _finish(job))
    records = read_log(job.lines()).records
    report.step("scale in mode Auto", lambda: checks.scale_auto(site))
    report.step("delete without operator", lambda: checks.delete_without_operator(site))
    job.delete()
    return len(records), explain(records, kills[0].at_s)


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
    return f"{RATE_RPS} requests/s for {LOAD_S} s"


def _kill_engine(site: Site, kills: list[faults.EngineKill]) -> str:
    kill = faults.kill_engine(site)
    kills.append(kill)
    return f"engine at {kill.pod_ip} killed and replaced"


def _finish(job: LoadJob) -> str:
    job.wait_complete()
    return f"{len(read_log(job.lines()).records)} answers are in"


if __name__ == "__main__":
    sys.exit(main())
