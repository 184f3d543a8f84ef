"""Replicas of a Deployment, through its `/scale` alone."""

from __future__ import annotations

from dataclasses import dataclass

from paceline_operator.domain.names import OPERATOR
from paceline_operator.kube.client import APPLY, KubeClient
from paceline_operator.kube.resource import DEPLOYMENT


@dataclass(frozen=True, slots=True)
class Scale:
    """What `/scale` says, and the version it said it at."""

    namespace: str
    name: str
    replicas: int
    resource_version: str
    uid: str


async def read_scale(client: KubeClient, namespace: str, name: str) -> Scale:
    """Read the scale of a Deployment.

    Raises:
        KubeError: One of the tree in `errors`.
    """
    answer = await client.get(DEPLOYMENT.path(namespace, name, "scale"))
    metadata = answer["metadata"]
    replicas = int(answer.get("spec", {}).get("replicas", 0))
    return Scale(namespace, name, replicas, metadata["resourceVersion"], metadata["uid"])


async def write_scale(client: KubeClient, scale: Scale, replicas: int) -> str:
    """Write replicas over exactly the scale that was read; returns the new resourceVersion.

    Raises:
        ConflictError: The Deployment changed meanwhile: another writer, or a newer leader.
        KubeError: Any other refusal.
    """
    body = {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {
            "name": scale.name,
            "namespace": scale.namespace,
            "resourceVersion": scale.resource_version,
            "uid": scale.uid,
        },
        "spec": {"replicas": replicas},
    }
    path = DEPLOYMENT.path(scale.namespace, scale.name, "scale")
    # Applied, not put: a server tracks writers of a scale only once somebody has applied it.
    answer = await client.write(
        "PATCH", path, body, content_type=APPLY, fieldManager=OPERATOR, force="true"
    )
    return str(answer["metadata"]["resourceVersion"])
