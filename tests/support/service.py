"""What tests ask about a stored `InferenceService` and its children."""

from __future__ import annotations

from typing import Any

from tests.support.fleet_api import COLLECTION
from tests.support.rest import Rest

CORE = "/api/v1/namespaces/default"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def status(rest: Rest, name: str) -> dict[str, Any]:
    """Its status, empty before there is one."""
    found: dict[str, Any] = rest.call("GET", f"{COLLECTION}/{name}").body.get("status", {})
    return found


def condition(rest: Rest, name: str, kind: str) -> dict[str, Any]:
    """One condition, empty before there is one."""
    found: list[dict[str, Any]] = status(rest, name).get("conditions", [])
    return next((each for each in found if each["type"] == kind), {})


def replicas(rest: Rest, name: str) -> int | None:
    """What the Deployment is asked for, None before it exists."""
    reply = rest.call("GET", f"{DEPLOYMENTS}/{name}/scale")
    return int(reply.body["spec"].get("replicas", 0)) if reply.status == 200 else None


def paths(name: str) -> list[str]:
    """The object and all its children, with a proxy."""
    return [
        f"{COLLECTION}/{name}",
        f"{DEPLOYMENTS}/{name}",
        f"{DEPLOYMENTS}/{name}-proxy",
        f"{CORE}/services/{name}",
        f"{CORE}/services/{name}-pods",
        f"{CORE}/secrets/{name}-admin",
        f"{CORE}/configmaps/{name}-tunables",
        f"{CORE}/configmaps/{name}-proxy",
    ]


def versions(rest: Rest, name: str) -> dict[str, str]:
    """Path -> resourceVersion of the object and its children; a missing one is left out."""
    replies = {path: rest.call("GET", path) for path in paths(name)}
    return {
        path: str(reply.body["metadata"]["resourceVersion"])
        for path, reply in replies.items()
        if reply.status == 200
    }
