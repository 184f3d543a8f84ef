"""Kills under load: the operator, an engine, the API server."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster import processes
from e2e.smoke.site import Site, SmokeError, until

API_AWAY_S = 30.0


@dataclass(frozen=True, slots=True)
class EngineKill:
    """When and where an engine was killed, and what it was doing then."""

    at_s: float
    pod_ip: str


def kill_operator(site: Site) -> str:
    """SIGKILL to the operator; its Deployment brings it back."""
    pods = site.system.json("get", "pods")["items"]
    uids = [pod["metadata"]["uid"] for pod in pods]
    for uid in uids:
        _kill_pod_processes(uid)
    took_s = until("operator back", lambda: _restarted(site, set(uids)), 90)
    return f"back after {took_s:.1f} s"


def kill_engine(site: Site) -> EngineKill:
    """SIGKILL to every process of one engine pod."""
    pod = site.engine_pods()[0]
    at_s = time.time()
    _kill_pod_processes(pod["metadata"]["uid"])
    until("killed engine noticed", lambda: _restarts(site) >= 1, 30)
    until("two replicas serve again", lambda: _ready(site) == 2, 60)
    return EngineKill(at_s, pod["status"]["podIP"])


def kill_api_server(site: Site) -> str:
    """SIGKILL to the API server, away for 30 s, started again, node Ready again."""
    if not processes.kill(site.settings, "kube-apiserver", signal.SIGKILL):
        raise SmokeError("the API server was not running")
    time.sleep(API_AWAY_S)
    processes.start(site.settings, "kube-apiserver")
    processes.wait_healthy(site.settings, "kube-apiserver")
    took_s = until("node Ready", lambda: _node_ready(site), 90)
    until("operator Ready", lambda: _operator_ready(site), 90)
    return f"away {API_AWAY_S:.0f} s, node Ready {took_s:.1f} s after its return"


def _kill_pod_processes(uid: str) -> None:
    """Ends a pod's containers as a crash would; the pause process, PID 1 of its own, stays."""
    marks = (uid, uid.replace("-", "_"))
    found = 0
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            inside = any(mark in (folder / "cgroup").read_text() for mark in marks)
            if inside and (folder / "comm").read_text().strip() != "pause":
                os.kill(int(folder.name), signal.SIGKILL)
                found += 1
        except (FileNotFoundError, ProcessLookupError):
            continue
    if not found:
        raise SmokeError(f"no process of pod {uid} on this machine")


def _restarted(site: Site, uids: set[str]) -> bool:
    pods = site.system.json("get", "pods")["items"]
    return any(
        status.get("ready") and (status["restartCount"] or pod["metadata"]["uid"] not in uids)
        for pod in pods
        for status in pod["status"].get("containerStatuses", [])
    )


def _restarts(site: Site) -> int:
    statuses = [s for pod in site.engine_pods() for s in pod["status"].get("containerStatuses", [])]
    return sum(int(status["restartCount"]) for status in statuses)


def _ready(site: Site) -> int:
    statuses = [s for pod in site.engine_pods() for s in pod["status"].get("containerStatuses", [])]
    return sum(bool(status.get("ready")) for status in statuses)


def _node_ready(site: Site) -> bool:
    nodes = site.system.json("get", "nodes")["items"]
    conditions = [c for node in nodes for c in node["status"].get("conditions", [])]
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _operator_ready(site: Site) -> bool:
    pods = site.system.json("get", "pods")["items"]
    statuses = [s for pod in pods for s in pod["status"].get("containerStatuses", [])]
    return any(status.get("ready") for status in statuses)
