"""Reads that bypass the store: single objects, and lists that repair it."""

from __future__ import annotations

from paceline_operator.domain.names import LABEL_SERVICE
from paceline_operator.kube.client import KubeClient, Object
from paceline_operator.kube.errors import NotFoundError
from paceline_operator.kube.resource import EVENT, Resource


async def fetch(client: KubeClient, kind: Resource, namespace: str, name: str) -> Object | None:
    """One object, or None where it does not exist."""
    try:
        return await client.get(kind.path(namespace, name))
    except NotFoundError:
        return None


async def fetch_children(
    client: KubeClient, kind: Resource, namespace: str, service: str
) -> list[Object]:
    """All objects of one kind that carry a service's label."""
    return await _listed(client, kind, namespace, labelSelector=f"{LABEL_SERVICE}={service}")


async def fetch_all(client: KubeClient, kind: Resource, namespace: str | None) -> list[Object]:
    """All objects of one kind in a namespace, or in all of them."""
    return await _listed(client, kind, namespace)


async def fetch_events(client: KubeClient, namespace: str, uid: str) -> list[Object]:
    """Events about one object."""
    return await _listed(client, EVENT, namespace, fieldSelector=f"regarding.uid={uid}")


async def _listed(
    client: KubeClient, kind: Resource, namespace: str | None, **query: str
) -> list[Object]:
    answer = await client.get(kind.path(namespace), **query)
    defaults = {"apiVersion": kind.api_version, "kind": kind.kind}
    return [{**defaults, **item} for item in answer.get("items", [])]
