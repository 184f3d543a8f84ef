"""What runs: the cluster's processes, its node and its pods."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from e2e.cluster import access, components, lifecycle, processes, procfs, readiness
from e2e.cluster.settings import Settings
from e2e.kubectl import KubectlError, items


@dataclass(frozen=True, slots=True)
class ProcessState:
    """One component.

    Attributes:
        name: Its name.
        pid: Its process, or None where it does not run.
        healthy: Whether it answered well.
        rss_mib: Resident memory in MiB.
    """

    name: str
    pid: int | None
    healthy: bool
    rss_mib: float


@dataclass(frozen=True, slots=True)
class PodState:
    """One pod.

    Attributes:
        namespace: Where it is.
        name: Its name.
        phase: Its phase.
        ready: Ready and all containers.
        restarts: Restarts of all of its containers.
    """

    namespace: str
    name: str
    phase: str
    ready: str
    restarts: int


@dataclass(frozen=True, slots=True)
class Report:
    """The whole of it.

    Attributes:
        provider: `built` or `existing`.
        kubeconfig: File to use.
        up: Whether the cluster is up, or an existing one reachable.
        node_ready: Whether the node says Ready.
        processes: Its processes; none for an existing cluster.
        pods: All pods.
    """

    provider: str
    kubeconfig: Path
    up: bool
    node_ready: bool
    processes: tuple[ProcessState, ...] = ()
    pods: tuple[PodState, ...] = ()

    @property
    def is_well(self) -> bool:
        """Whether the cluster can be used."""
        return self.up and self.node_ready and all(each.healthy for each in self.processes)


def gather(settings: Settings) -> Report:
    """Looks at the cluster."""
    if settings.provider == "existing":
        pods = _pods(settings)
        up = pods is not None
        return Report("existing", settings.kubeconfig, up, up, pods=pods or ())
    if not lifecycle.is_up(settings):
        return Report("built", settings.kubeconfig, up=False, node_ready=False)
    states = tuple(_process(settings, name) for name in components.ORDER)
    return Report(
        "built",
        settings.kubeconfig,
        up=True,
        node_ready=readiness.node_is_ready(settings),
        processes=states,
        pods=_pods(settings) or (),
    )


def as_json(report: Report) -> dict[str, Any]:
    """The report as plain data."""
    return {**asdict(report), "kubeconfig": str(report.kubeconfig), "well": report.is_well}


def show(report: Report, console: Console | None = None) -> None:
    """Prints the report for people."""
    out = console or Console()
    if not report.up:
        out.print("cluster: down - `make cluster-up` starts it")
        return
    if report.processes:
        out.print(_process_table(report))
    out.print(_pod_table(report))
    node = "Ready" if report.node_ready else "not Ready"
    out.print(f"node {node}")


def pod_state(pod: Mapping[str, Any]) -> PodState:
    """One pod as the API server describes it."""
    containers = pod.get("status", {}).get("containerStatuses", [])
    ready = sum(bool(each.get("ready")) for each in containers)
    return PodState(
        namespace=pod["metadata"]["namespace"],
        name=pod["metadata"]["name"],
        phase=pod.get("status", {}).get("phase", "Unknown"),
        ready=f"{ready}/{len(pod['spec']['containers'])}",
        restarts=sum(int(each.get("restartCount", 0)) for each in containers),
    )


def _process(settings: Settings, name: str) -> ProcessState:
    identity = processes.find(settings, name)
    if identity is None:
        return ProcessState(name, None, healthy=False, rss_mib=0.0)
    healthy = processes.is_healthy(settings, name)
    return ProcessState(name, identity.pid, healthy, procfs.resident_mib(identity.pid))


def _pods(settings: Settings) -> tuple[PodState, ...] | None:
    try:
        listing = access.kubectl(settings).json("get", "pods", "--all-namespaces")
    except KubectlError:
        return None
    return tuple(pod_state(pod) for pod in items(listing))


def _process_table(report: Report) -> Table:
    table = Table("process", "pid", "health", "MiB", title="Processes")
    for each in report.processes:
        health = "ok" if each.healthy else "[red]not well[/red]"
        table.add_row(each.name, str(each.pid or "-"), health, f"{each.rss_mib:.0f}")
    return table


def _pod_table(report: Report) -> Table:
    table = Table("namespace", "pod", "phase", "ready", "restarts", title="Pods")
    for pod in report.pods:
        table.add_row(pod.namespace, pod.name, pod.phase, pod.ready, str(pod.restarts))
    return table
