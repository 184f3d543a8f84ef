"""An API server in memory, which counts what the operator writes.

It keeps objects, versions, owners of fields, scales and statuses as a server does, and stands
for the controllers besides: a Deployment is rolled out, and has its pods, at once. What changes
is told to the operator's store and queue as its watches would.
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from kubernetes_asyncio.client import Configuration
from typing_extensions import override

from paceline_operator.domain.names import ENGINE, LABEL_COMPONENT, LABEL_SERVICE, OPERATOR
from paceline_operator.kube.client import APPLY, JSON_PATCH, KubeClient, Object
from paceline_operator.kube.errors import ConflictError, NotFoundError
from paceline_operator.kube.resource import (
    CONFIG_MAP,
    DEPLOYMENT,
    EVENT,
    INFERENCE_SERVICE,
    POD,
    SECRET,
    SERVICE,
    Resource,
)

NAMESPACE = "bench"
KINDS = {kind.plural: kind for kind in (
    INFERENCE_SERVICE, DEPLOYMENT, POD, SERVICE, SECRET, CONFIG_MAP
)}  # fmt: skip
_OWN = {"manager": OPERATOR, "operation": "Apply"}
_OWNED_METADATA: Object = {"f:labels": {}, "f:annotations": {}, "f:ownerReferences": {}}
_SCALED: Object = {"f:spec": {"f:replicas": {}}}


class Change(StrEnum):
    """What became of an object."""

    KEPT = "kept"
    DELETED = "deleted"


@dataclass(slots=True)
class Writes:
    """Of one object and its children: to its status, and all others, by what they were."""

    status: int = 0
    others: Counter[str] = field(default_factory=Counter)


class MemoryApi(KubeClient):
    """The double.

    Args:
        clock: Seconds since the epoch.
        address: Gives a new pod's address.

    Attributes:
        writes: Service -> what was written for it.
        changed: Called after each change, with kind and object.
    """

    def __init__(self, clock: Callable[[], float], address: Callable[[str], str]) -> None:
        super().__init__(Configuration())
        self._clock = clock
        self._address = address
        self._objects: dict[tuple[str, str], Object] = {}
        self._version = 1
        self.writes: dict[str, Writes] = {}
        self.changed: Callable[[Resource, Object, Change], None] = lambda *_: None

    def create(self, kind: Resource, item: Object) -> Object:
        """Store an object as a user would."""
        return self._keep(kind, {"apiVersion": kind.api_version, "kind": kind.kind, **item})

    def all(self, kind: Resource) -> Iterator[Object]:
        """Objects of a kind."""
        return (item for (plural, _), item in self._objects.items() if plural == kind.plural)

    @override
    async def get(self, path: str, **query: str) -> Object:
        plural, name, sub = _parts(path)
        if not name:
            selector = query.get("labelSelector", "=").partition("=")
            return {"items": [
                item for (of, _), item in self._objects.items()
                if of == plural and _labels(item).get(selector[0]) == selector[2]
            ]}  # fmt: skip
        item = self._found(plural, name)
        return item if sub != "scale" else {**item, "spec": {"replicas": item["spec"]["replicas"]}}

    @override
    async def write(
        self, method: str, path: str, body: Any, *, content_type: str = "", **query: str
    ) -> Object:
        body = json.loads(json.dumps(body))  # as it would be sent
        plural, name, sub = _parts(path)
        if plural == EVENT.plural:
            self._count(body.get("regarding", {}).get("name") or name.partition(".")[0], "event")
            return dict(body)
        kind = KINDS[plural]
        if method == "POST":
            name = body["metadata"]["name"]
            if (plural, name) in self._objects:
                raise ConflictError(f"{path} exists")
            self._count(_service(body, name), f"create {kind.kind}")
            return self._keep(kind, body)
        live = copy.deepcopy(self._found(plural, name))
        self._count(_service(live, name), "status" if sub == "status" else sub or kind.kind)
        _patch(live, body, content_type, sub)
        return self._keep(kind, live)

    def _found(self, plural: str, name: str) -> Object:
        try:
            return self._objects[plural, name]
        except KeyError:
            raise NotFoundError(f"{plural} {name}") from None

    def _count(self, service: str, what: str) -> None:
        writes = self.writes.setdefault(service, Writes())
        if what == "status":
            writes.status += 1
        else:
            writes.others[what] += 1

    def _keep(self, kind: Resource, item: Object) -> Object:
        self._version += 1
        key = kind.plural, item["metadata"]["name"]
        known = self._objects.get(key)
        metadata = {"namespace": NAMESPACE, "uid": f"uid-{key[1]}-{self._version}",
                    "creationTimestamp": _moment(self._clock()), "generation": 1}  # fmt: skip
        item["metadata"] = {**metadata, **item["metadata"], "resourceVersion": str(self._version)}
        if known is not None and known.get("spec") != item.get("spec"):
            item["metadata"]["generation"] = known["metadata"]["generation"] + 1
        if kind is DEPLOYMENT:
            self._control(item)
        self._objects[key] = item
        self.changed(kind, item, Change.KEPT)
        return item

    def _control(self, deployment: Object) -> None:
        """What controllers and kubelets do about a Deployment, at once."""
        replicas = deployment["spec"].setdefault("replicas", 1)
        name = deployment["metadata"]["name"]
        deployment["status"] = _rolled_out(replicas, deployment["metadata"]["generation"])
        if _labels(deployment["spec"]["template"]).get(LABEL_COMPONENT) != ENGINE:
            return
        pods = [item for item in self.all(POD) if _labels(item).get(LABEL_SERVICE) == name]
        victims = sorted(pods, key=_deletion_cost)[: max(0, len(pods) - replicas)]
        for pod in victims:
            del self._objects[POD.plural, pod["metadata"]["name"]]
            self.changed(POD, pod, Change.DELETED)
        for _ in range(replicas - len(pods)):
            self._keep(POD, self._pod(deployment))

    def _pod(self, deployment: Object) -> Object:
        name = f"{deployment['metadata']['name']}-5d8f9c7b6-{self._version:x}"
        # Shared: what a server keeps is no part of the operator.
        template = deployment["spec"]["template"]
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "controller": True, "uid": "r",
                 "name": f"{deployment['metadata']['name']}-5d8f9c7b6"}  # fmt: skip
        now = _moment(self._clock())
        return {
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {**template["metadata"], "name": name, "ownerReferences": [owner]},
            "spec": template["spec"],
            "status": {
                "phase": "Running", "podIP": self._address(name),
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": now}],
                "containerStatuses": [{
                    "name": "engine", "ready": True, "restartCount": 0, "image": "", "imageID": "",
                    "state": {"running": {"startedAt": now}},
                }],
            },
        }  # fmt: skip


def _patch(live: Object, body: Any, content_type: str, sub: str) -> None:
    if content_type == JSON_PATCH:
        for operation in body:
            _at(live, operation["path"], operation["value"])
        return
    version = body["metadata"].pop("resourceVersion", None)
    if version not in (None, live["metadata"]["resourceVersion"]):
        raise ConflictError("it changed meanwhile")
    if content_type != APPLY:
        _merge(live, body)
    elif sub == "scale":
        live["spec"]["replicas"] = body["spec"]["replicas"]
        _own(live, {**_OWN, "subresource": "scale", "fieldsV1": _SCALED})
    else:
        _merge(live, body)
        owned: Object = {f"f:{key}": {} for key in body}
        _own(live, {**_OWN, "fieldsV1": {**owned, "f:metadata": _OWNED_METADATA}})


def _own(live: Object, entry: Object) -> None:
    known = live["metadata"].get("managedFields", [])
    same = entry.get("subresource")
    live["metadata"]["managedFields"] = [
        *(each for each in known if each.get("subresource") != same), entry
    ]  # fmt: skip


def _at(live: Object, path: str, value: Any) -> None:
    *inner, last = path.strip("/").split("/")
    place = live
    for each in inner:
        place = place[each]
    if last == "resourceVersion" and place[last] != value:
        raise ConflictError("it changed meanwhile")
    place[last] = value


def _merge(into: Object, new: Mapping[str, Any]) -> None:
    for key, value in new.items():
        if value is None:
            into.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value


def _parts(path: str) -> tuple[str, str, str]:
    """Plural, name and subresource."""
    plural, *rest = path.partition(f"/namespaces/{NAMESPACE}/")[2].split("/")
    return plural, rest[0] if rest else "", rest[1] if len(rest) > 1 else ""


def _labels(item: Mapping[str, Any]) -> Mapping[str, str]:
    return item["metadata"].get("labels") or {}


def _service(item: Object, name: str) -> str:
    return str(_labels(item).get(LABEL_SERVICE, name))


def _deletion_cost(pod: Object) -> int:
    annotations = pod["metadata"].get("annotations") or {}
    return int(annotations.get("controller.kubernetes.io/pod-deletion-cost", 0))


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _rolled_out(replicas: int, generation: int) -> Object:
    progress = {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}
    return {
        "observedGeneration": generation, "replicas": replicas, "updatedReplicas": replicas,
        "readyReplicas": replicas, "availableReplicas": replicas,
        "conditions": [progress, {"type": "Available", "status": "True", "reason": "Yes"}],
    }  # fmt: skip


__all__ = ["NAMESPACE", "Change", "MemoryApi", "Writes"]
