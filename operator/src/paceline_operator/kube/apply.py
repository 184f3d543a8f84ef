"""Server-side apply of children and guarded status writes; nothing is written without need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from paceline_operator.domain.difference import differs, stamped
from paceline_operator.domain.names import OPERATOR
from paceline_operator.kube.client import APPLY, JSON_PATCH, KubeClient, Object
from paceline_operator.kube.errors import ConflictError
from paceline_operator.kube.resource import BY_KIND, Resource


@dataclass(frozen=True, slots=True)
class Applied:
    """A child after the call, and whether anything was written."""

    child: Object
    written: bool


async def apply(client: KubeClient, manifest: Object, live: Object | None) -> Applied:
    """Bring one child to its manifest.

    The write carries the `resourceVersion` that was compared, so a process that decided on
    an older state fails instead of undoing a newer one.

    Args:
        client: Where to.
        manifest: Our fields only.
        live: The child as last seen, None where it does not exist.

    Raises:
        ConflictError: The child changed meanwhile, or belongs to someone else.
        KubeError: Any other refusal.
    """
    wanted = stamped(manifest)
    if live is not None:
        _refuse_foreign(wanted, live)
        if not differs(wanted, live):
            return Applied(live, written=False)
        version = live["metadata"]["resourceVersion"]
        wanted = {**wanted, "metadata": {**wanted["metadata"], "resourceVersion": version}}
    metadata = wanted["metadata"]
    path = BY_KIND[wanted["kind"]].path(metadata["namespace"], metadata["name"])
    child = await client.write(
        "PATCH", path, wanted, content_type=APPLY, fieldManager=OPERATOR, force="true"
    )
    return Applied(child, written=True)


def _refuse_foreign(wanted: Object, live: Object) -> None:
    owner = wanted["metadata"]["ownerReferences"][0]["uid"]
    owners = [ref.get("uid") for ref in live["metadata"].get("ownerReferences", [])]
    if owner not in owners:
        kind, name = wanted["kind"], wanted["metadata"]["name"]
        raise ForeignChildError(
            f"{kind} {name} exists and belongs to someone else: rename the service or remove it"
        )


class ForeignChildError(ConflictError):
    """An object with the child's name exists and is not ours."""


async def write_status(
    client: KubeClient, kind: Resource, live: Object, status: dict[str, Any]
) -> Object:
    """Replace the whole status, if the object is still the one that was read.

    Raises:
        ConflictError: It changed meanwhile.
        KubeError: Any other refusal.
    """
    metadata = live["metadata"]
    patch = [
        # Not "test": its failure is a 422, but another version than the stored one is a 409.
        {"op": "add", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]},
        {"op": "add", "path": "/status", "value": status},
    ]
    path = kind.path(metadata["namespace"], metadata["name"], "status")
    return await client.write("PATCH", path, patch, content_type=JSON_PATCH, fieldManager=OPERATOR)
