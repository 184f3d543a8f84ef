"""Whether the operator can work: what its probes say, and what it waits for at start."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from paceline_operator.kube.client import KubeClient
from paceline_operator.kube.errors import KubeError, NotFoundError
from paceline_operator.kube.lease import LeaderLease
from paceline_operator.kube.resource import INFERENCE_SERVICE, Resource
from paceline_operator.kube.store import Key
from paceline_operator.reconcile.queue import WorkQueue

log = logging.getLogger(__name__)

OVERDUE_S = 120.0


@dataclass(slots=True)
class Health:
    """What the probes say."""

    queue: WorkQueue[Key]
    lease: LeaderLease
    can_reach_api: bool = False

    def alive(self) -> str:
        """Trouble that only a restart ends."""
        late = self.queue.overdue_s()
        return f"the oldest due object waits for {late:.0f} s" if late > OVERDUE_S else ""

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
