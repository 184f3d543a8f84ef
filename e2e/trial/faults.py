"""What goes wrong between operator and engines, beside the kills of the smoke test."""

from __future__ import annotations

import re
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from e2e.cluster.settings import NODE_IP
from e2e.smoke.faults import pod_processes
from e2e.smoke.losses import Fault
from e2e.smoke.site import Site, SmokeError, until
from e2e.trial.diversion import Diversion, diverted
from e2e.trial.impostor import Mute, mute, pretender
from paceline_operator.domain.contract import ADMIN_PORT, HEALTH_PORT
from paceline_operator.metrics import names

HANG_S = 45.0
LEAST_ASKED = 3
TOLD_S = 60.0
MEND_S = 90.0
STALE_TOLD_S, FRESH_TOLD_S = 90.0, 120.0
"""A status tells of what is measured once a minute, of a change for the worse ahead of that."""

_REVISION = re.compile(rf"^{names.TUNABLES_REVISION.full_name}\{{[^}}]*\}} (\S+)$", re.M)


@dataclass(frozen=True, slots=True)
class Mended:
    """A fault that is over.

    Attributes:
        fault: When it was.
        words: What it showed.
    """

    fault: Fault
    words: str


def hang_metrics(site: Site) -> Mended:
    """All engines' metrics accept connections and never answer; requests and probes pass.

    All, since measurements count as fresh while half of the pods answer.

    Raises:
        SmokeError: Nobody was told that nothing is measured, the operator gave up asking an
            engine, lowered replicas meanwhile, or did not read them again afterwards.
    """
    at_s = time.time()
    with ExitStack() as hanging:
        servers = [_hang(hanging, site, pod) for pod in _ready_engines(site)]
        told_s = until(
            "MetricsFresh=False while metrics hang", lambda: _is_stale(site), STALE_TOLD_S
        )
        known = _desired(site)
        time.sleep(max(0.0, HANG_S - (time.time() - at_s)))
        asked, left = min(server.accepted for server in servers), _desired(site)
        if not _is_stale(site):
            raise SmokeError("metrics hung: MetricsFresh is not False any more while they do")
    end_s = time.time()
    if asked < LEAST_ASKED:
        raise SmokeError(f"metrics hung: an engine was asked {asked} times in {HANG_S:.0f} s")
    if left < known:
        raise SmokeError(f"metrics hung: replicas were lowered from {known} to {left} meanwhile")
    took_s = until("MetricsFresh=True after metrics hung", lambda: _is_fresh(site), FRESH_TOLD_S)
    words = (
        f"{len(servers)} engines, each asked {asked} times or more in vain, MetricsFresh=False "
        f"after {told_s:.0f} s, replicas held at {left}, fresh {took_s:.0f} s after the end"
    )
    return Mended(Fault("metrics hung", at_s, end_s), words)


def _hang(hanging: ExitStack, site: Site, pod: dict[str, Any]) -> Mute:
    server = hanging.enter_context(mute(NODE_IP))
    to_it = Diversion(pod["status"]["podIP"], HEALTH_PORT, server.port)
    hanging.enter_context(diverted(operators(site), to_it))
    return server


def ignore_tunables(site: Site) -> Mended:
    """One engine accepts changes of live values and keeps its own.

    Raises:
        SmokeError: No change was sent, nobody was told that it is not taken, or the engine was
            left behind once it did as told again.
    """
    pod, at_s = _ready_engines(site)[0], time.time()
    pod_ip = pod["status"]["podIP"]
    with (
        pretender(NODE_IP, pod_ip) as server,
        diverted(operators(site), Diversion(pod_ip, ADMIN_PORT, server.port)),
    ):
        _move_target(site)
        until("a change of live values sent", lambda: bool(server.ignored), 30)
        told_s = until("Reconciling says TunablesNotTaken", lambda: _is_told(site), TOLD_S)
    end_s = time.time()
    took_s = until("live values in force everywhere", lambda: is_followed(site), MEND_S)
    words = (
        f"{len(server.ignored)} calls ignored, told after {told_s:.0f} s, in force everywhere "
        f"{took_s:.0f} s after the last of them"
    )
    return Mended(Fault("tunables ignored", at_s, end_s), words)


def is_followed(site: Site) -> bool:
    """Whether every engine, by its own metrics, runs with the revision that is agreed."""
    agreed = int(site.service()["status"]["budget"]["revision"])
    names_of = [pod["metadata"]["name"] for pod in site.engine_pods()]
    return all(revision_of(site.kubectl.pod_metrics(name)) == agreed for name in names_of)


def revision_of(metrics: str) -> int | None:
    """Revision of the live values in force, by an engine's own metrics."""
    found = _REVISION.search(metrics)
    return None if found is None else round(float(found[1]))


def moved(slos: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The objectives with one target a millisecond further: what engines count by is another."""
    first, *others = slos
    return [{**first, "targetMs": int(first["targetMs"]) + 1}, *others]


def _move_target(site: Site) -> None:
    slos = moved(site.service()["spec"]["slos"])
    site.kubectl.patch("inferenceservice", site.name, {"spec": {"slos": slos}})


def operators(site: Site) -> list[int]:
    """One process of each pod of the operator that is not leaving."""
    pods = site.system.json("get", "pods")["items"]
    staying = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    found = [pod_processes(pod["metadata"]["uid"]) for pod in staying]
    return [pids[0] for pids in found if pids]


def _ready_engines(site: Site) -> list[dict[str, Any]]:
    """Oldest first."""
    ready = [
        pod
        for pod in site.engine_pods()
        if any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"]["conditions"])
    ]
    if not ready:
        raise SmokeError("no engine is ready")
    return sorted(ready, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))


def _desired(site: Site) -> int:
    return int(site.service()["status"].get("desiredReplicas") or 0)


def _is_told(site: Site) -> bool:
    return bool(site.condition("Reconciling").get("reason") == "TunablesNotTaken")


def _is_stale(site: Site) -> bool:
    return bool(site.condition("MetricsFresh").get("status") == "False")


def _is_fresh(site: Site) -> bool:
    return bool(site.condition("MetricsFresh").get("status") == "True")
