"""Whether the operator can work: what its probes say, and what it waits for at start."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from paceline_operator.clock import SteadyClock
from paceline_operator.kube.client import KubeClient
from paceline_operator.kube.errors import KubeError, NotFoundError
from paceline_operator.kube.lease import LeaderLease
from paceline_operator.kube.resource import INFERENCE_SERVICE, Resource
from paceline_operator.kube.store import Key
from paceline_operator.reconcile.queue import WorkQueue

log = logging.getLogger(__name__)

STUCK_S = 120.0
CLOCK_SET_S = 60.0
"""A clock that was set by more is followed too slowly: schedules would be late, and what a
Prometheus server has would be asked for at the wrong time. A start reads it anew."""


@dataclass(slots=True)
class Health:
    """What the probes say."""

    queue: WorkQueue[Key]
    lease: LeaderLease
    clock: SteadyClock
    can_reach_api: bool = False

    def alive(self) -> str:
        """Trouble that only a restart ends."""
        if (stuck_s := self.queue.stuck_s()) > STUCK_S:
            return f"objects are due, and none was taken for {stuck_s:.0f} s"
        if abs(error_s := self.clock.error_s) > CLOCK_SET_S:
            return f"the machine's clock was set by {error_s:.0f} s"
        return ""

    def ready(self) -> str:
        """Why this process neither works nor stands by."""
        return self.lease.refusal if self.can_reach_api else "the API server was not reached yet"


async def reach(client: KubeClient, health: Health, namespaces: tuple[str, ...]) -> None:
    """Wait for the API server and the definition."""
    told = ""
    while True:
        trouble = await _trouble(client, next(iter(namespaces), None))
        if not trouble:
            health.can_reach_api = True
            return
        if trouble != told:
            log.warning("%s; trying on", trouble)
        told = trouble
        await asyncio.sleep(1.0)


async def _trouble(client: KubeClient, namespace: str | None) -> str:
    try:
        await client.get(INFERENCE_SERVICE.path(namespace), limit="1")
    except NotFoundError:
        return "the definition of InferenceService is not installed: apply crds/ first"
    except KubeError as error:
        return str(error)
    return ""


async def exists(client: KubeClient, kind: Resource) -> bool:
    """Whether the cluster knows a kind: its group may be there without it.

    Raises:
        KubeError: The server does not say.
    """
    try:
        known = await client.get(f"/apis/{kind.api_version}")
    except NotFoundError:
        return False
    return any(each.get("name") == kind.plural for each in known.get("resources") or ())
