"""Kills under load: the operator, an engine, the API server.

Each waits for signs of life that cannot be left from before the kill, and says between which
times something was dead.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from e2e import interruption
from e2e.cluster import processes
from e2e.smoke.leases import renewed_after
from e2e.smoke.losses import EngineKill, Fault
from e2e.smoke.pods import Container, containers, has_restarted, ready_anew
from e2e.smoke.site import Site, SmokeError, until

API_AWAY_S = 30.0
NODE_LEASES = "kube-node-lease"
OPERATOR_LEASE = "paceline-leader"

_HELD = re.compile(r"^paceline_engine_requests_(?:running|waiting)\{[^}]*\} (\S+)$", re.M)


@dataclass(frozen=True, slots=True)
class Busy:
    """An engine pod and the requests that it held when it was asked.

    Attributes:
        pod: The object.
        read_at_s: Unix time just before it was asked.
        held: Requests running and waiting.
    """

    pod: dict[str, Any]
    read_at_s: float
    held: int


def kill_operator(site: Site) -> Fault:
    """SIGKILL to the operator; its Deployment brings it back, and it leads again."""
    pods = site.system.json("get", "pods")["items"]
    return _kill_operators(site, pods, pods)


def kill_leader(site: Site) -> tuple[Fault, str]:
    """SIGKILL to the operator that leads, of two; the other takes over.

    Returns:
        When nobody led, and who leads now.
    """
    old = _leader(site)
    pods = site.system.json("get", "pods")["items"]
    leading = [pod for pod in pods if old.startswith(pod["metadata"]["name"])]
    fault = _kill_operators(site, pods, leading)
    new = _leader(site)
    if new == old:
        raise SmokeError(f"{old} was killed and leads again; another should")
    return fault, new


def _kill_operators(
    site: Site, known: Sequence[Mapping[str, Any]], killed: Sequence[Mapping[str, Any]]
) -> Fault:
    before, at_s = containers(known), time.time()
    for pod in killed:
        _kill_pod_processes(pod["metadata"]["uid"])
    dead_s = time.time()
    until("operator leads again", lambda: _leads(site, dead_s), 90)
    until("operator started again", lambda: ready_anew(before, _operator(site)), 90)
    return Fault("operator", at_s, time.time())


def _leader(site: Site) -> str:
    lease = site.system.json("get", "lease", OPERATOR_LEASE)
    return str(lease["spec"].get("holderIdentity") or "")


def kill_engine(site: Site) -> tuple[Fault, EngineKill]:
    """SIGKILL to every process of one engine pod, of the one that holds most requests."""
    busiest = _at_work(site)
    serving = sum(c.ready for c in _engines(site))
    before, uid = containers([busiest.pod]), busiest.pod["metadata"]["uid"]
    at_s = time.time()
    _kill_pod_processes(uid)
    dead_s = time.time()
    until("killed engine noticed", lambda: has_restarted(before, _engines(site)), 30)
    until(
        f"{serving} replicas serve again",
        lambda: sum(c.ready for c in _engines(site)) >= serving,
        60,
    )
    kill = EngineKill(
        read_at_s=busiest.read_at_s,
        at_s=at_s,
        dead_s=dead_s,
        held=busiest.held,
        pod_ip=busiest.pod["status"]["podIP"],
    )
    return Fault("engine", at_s, time.time()), kill


def kill_api_server(site: Site, away_s: float = API_AWAY_S) -> Fault:
    """SIGKILL to the API server, away for a while, started again; node and operator report anew."""
    at_s = time.time()
    if not processes.kill(site.settings, "kube-apiserver", signal.SIGKILL):
        raise SmokeError("the API server was not running")
    try:
        time.sleep(away_s)
        back_s = time.time()
    finally:
        # Also after Ctrl-C: a cluster that is kept must not be left without its API server.
        with interruption.held_off():
            processes.start(site.settings, "kube-apiserver")
            processes.wait_healthy(site.settings, "kube-apiserver")
    until("node reports again", lambda: _node_lives(site, back_s), 90)
    until("operator leads again", lambda: _leads(site, back_s), 90)
    until("operator Ready", lambda: any(c.ready for c in _operator(site)), 90)
    return Fault("API server", at_s, back_s)


def _at_work(site: Site) -> Busy:
    """The engine with most requests, once one has any: the death of an idle one shows nothing."""
    seen: list[Busy] = []

    def holds() -> bool:
        now = [_read(site, pod) for pod in site.engine_pods()]
        seen[:] = sorted(now, key=lambda busy: busy.held)
        return bool(seen) and seen[-1].held > 0

    until("an engine that holds requests", holds, 30)
    return seen[-1]


def _read(site: Site, pod: dict[str, Any]) -> Busy:
    read_at_s = time.time()
    return Busy(pod, read_at_s, held_requests(site.kubectl.pod_metrics(pod["metadata"]["name"])))


def held_requests(metrics: str) -> int:
    """Requests that an engine holds, running and waiting, by its own metrics."""
    return round(sum(map(float, _HELD.findall(metrics))))


def _kill_pod_processes(uid: str) -> None:
    """Ends a pod's containers as a crash would; the pause process, PID 1 of its own, stays."""
    found = pod_processes(uid)
    if not found:
        raise SmokeError(f"no process of pod {uid} on this machine")
    for pid in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def pod_processes(uid: str) -> list[int]:
    """Ids, on this machine, of what runs in a pod's containers; its pause process is left out."""
    marks = (uid, uid.replace("-", "_"))
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            inside = any(mark in (folder / "cgroup").read_text() for mark in marks)
            if inside and (folder / "comm").read_text().strip() != "pause":
                found.append(int(folder.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def _operator(site: Site) -> tuple[Container, ...]:
    return containers(site.system.json("get", "pods")["items"])


def _engines(site: Site) -> tuple[Container, ...]:
    return containers(site.engine_pods())


def _leads(site: Site, since_s: float) -> bool:
    return renewed_after(site.system.json("get", "lease", OPERATOR_LEASE), since_s)


def _node_lives(site: Site, since_s: float) -> bool:
    leases = replace(site.system, namespace=NODE_LEASES)
    lease = leases.json("get", "lease", site.settings.node)
    node = site.system.json("get", "node", site.settings.node)
    ready = any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in node["status"].get("conditions", [])
    )
    return ready and renewed_after(lease, since_s)
