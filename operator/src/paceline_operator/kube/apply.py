"""Server-side apply of children and guarded status writes; nothing is written without need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from paceline_operator.domain.belonging import is_child
from paceline_operator.domain.difference import differs, stamped
from paceline_operator.domain.field_set import holds, is_own
from paceline_operator.domain.names import (
    ANNOTATION_APPLIED,
    LABEL_MANAGED_BY,
    LABEL_SERVICE,
    OPERATOR,
)
from paceline_operator.kube.client import APPLY, JSON_PATCH, KubeClient, Object
from paceline_operator.kube.errors import ConflictError
from paceline_operator.kube.resource import BY_KIND, Resource


@dataclass(frozen=True, slots=True)
class Applied:
    """A child after the call.

    Attributes:
        child: As it is now.
        written: Whether anything was.
        held: Whether it differs, and is left so for now.
    """

    child: Object
    written: bool
    held: bool = False


async def apply(
    client: KubeClient,
    manifest: Object,
    live: Object | None,
    replicas: int | None = None,
    is_held: Callable[[Object], bool] = lambda _: False,
) -> Applied:
    """Bring one child to its manifest.

    It is written where the live one differs, and where a field that the manifest declares has
    been taken from us: someone else changed or removed it.

    The write carries the `resourceVersion` that was compared, so a process that decided on
    an older state fails instead of undoing a newer one. A missing child is posted before it is
    applied: a post fails where someone else, such as a newer leader, has made it meanwhile.

    Args:
        client: Where to.
        manifest: Our fields only.
        live: The child as last seen, None where it does not exist.
        replicas: What a Deployment is made with whose manifest leaves that to `/scale`: a server
            would begin with one pod.
        is_held: Asked of the live child before it is written again; True leaves it for now.

    Raises:
        ConflictError: The child changed meanwhile, or belongs to someone else.
        KubeError: Any other refusal.
    """
    wanted, metadata = stamped(manifest), manifest["metadata"]
    kind = BY_KIND[manifest["kind"]]
    path = kind.path(metadata["namespace"], metadata["name"])
    if live is None:
        collection = kind.path(metadata["namespace"])
        # Strict, as applying is: else a child would be made without the field that is unknown.
        posted = manifest
        if replicas is not None:
            posted = {**manifest, "spec": {"replicas": replicas, **manifest["spec"]}}
        live = await client.write(
            "POST", collection, posted, fieldManager=OPERATOR, fieldValidation="Strict"
        )
    else:
        _refuse_foreign(wanted, live)
        if not differs(wanted, live) and holds(wanted, live):
            return Applied(live, written=False)
        if is_held(live):
            return Applied(live, written=False, held=True)
    if _is_unfinished(live):
        live = await _disowned(client, kind, live)
    version = live["metadata"]["resourceVersion"]
    wanted = {**wanted, "metadata": {**wanted["metadata"], "resourceVersion": version}}
    child = await client.write(
        "PATCH", path, wanted, content_type=APPLY, fieldManager=OPERATOR, force="true"
    )
    return Applied(child, written=True)


def _is_unfinished(live: Object) -> bool:
    """Whether a child was posted but never applied."""
    metadata = live["metadata"]
    owners = metadata.get("managedFields") or ()
    return ANNOTATION_APPLIED not in (metadata.get("annotations") or {}) and not any(
        map(is_own, owners)
    )


async def _disowned(client: KubeClient, kind: Resource, live: Object) -> Object:
    """A posted child whose fields nobody owns yet.

    A post owns all fields, those the server filled in too (`replicas`!); what is applied next
    owns just those of the manifest. The list of owners must not be empty: a server would make
    one up that owns everything.
    """
    owner = {
        "manager": OPERATOR,
        "operation": "Apply",
        "apiVersion": kind.api_version,
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:metadata": {"f:labels": {f"f:{LABEL_MANAGED_BY}": {}}}},
    }
    patch = [
        _version(live),
        {"op": "add", "path": "/metadata/managedFields", "value": [owner]},
    ]
    path = kind.path(live["metadata"]["namespace"], live["metadata"]["name"])
    return await client.write("PATCH", path, patch, content_type=JSON_PATCH, fieldManager=OPERATOR)


def _version(live: Object) -> Object:
    # Not "test": its failure is a 422, but another version than the stored one is a 409.
    version = live["metadata"]["resourceVersion"]
    return {"op": "add", "path": "/metadata/resourceVersion", "value": version}


def _refuse_foreign(wanted: Object, live: Object) -> None:
    owner = wanted["metadata"]["ownerReferences"][0]
    owners = live["metadata"].get("ownerReferences") or []
    kind, name = wanted["kind"], wanted["metadata"]["name"]
    if is_child({**live, "kind": kind}, owner["uid"], wanted["metadata"]["labels"][LABEL_SERVICE]):
        return
    if any(_same_name(owner, ref) for ref in owners):
        raise ConflictError(f"{kind} {name} of the deleted {owner['name']} is not yet gone")
    raise ForeignChildError(
        f"{kind} {name} exists and belongs to someone else: rename the service or remove it"
    )


def _same_name(ours: Object, other: Object) -> bool:
    """Whether an owner is what bore our name before; the collector is about to remove its own."""
    keys = ("apiVersion", "kind", "name")
    return all(ours.get(key) == other.get(key) for key in keys)


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
        _version(live),
        {"op": "add", "path": "/status", "value": status},
    ]
    path = kind.path(metadata["namespace"], metadata["name"], "status")
    return await client.write("PATCH", path, patch, content_type=JSON_PATCH, fieldManager=OPERATOR)
