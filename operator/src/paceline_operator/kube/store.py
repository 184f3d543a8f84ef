"""What was last seen of every watched object; fed by watch events and our own writes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from paceline_operator.domain.field_set import is_own
from paceline_operator.domain.names import LABEL_SERVICE
from paceline_operator.kube.client import Object
from paceline_operator.kube.resource import CHILDREN, DEPLOYMENT, POD, Resource

Key = tuple[str, str]
MAX_GONE = 4096


def key_of(item: Object) -> Key:
    """Namespace and name."""
    return item["metadata"].get("namespace", ""), item["metadata"]["name"]


def version_of(item: Object) -> int:
    """The resourceVersion as the increasing number it is; 0 where it is not one."""
    text = str(item["metadata"].get("resourceVersion", ""))
    return int(text) if text.isdigit() else 0


class Store:
    """Objects by kind and key, and children by the service they belong to."""

    def __init__(self) -> None:
        self._objects: dict[str, dict[Key, Object]] = defaultdict(dict)
        self._children: dict[str, dict[Key, set[Key]]] = defaultdict(lambda: defaultdict(set))
        self._gone: dict[str, dict[Key, tuple[str, int]]] = defaultdict(dict)

    def put(self, kind: Resource, item: Object) -> bool:
        """Take in an object; False where a newer one is known (events may be late)."""
        key, objects = key_of(item), self._objects[kind.kind]
        known = objects.get(key)
        if known is not None and version_of(known) > version_of(item):
            return False
        uid, version = self._gone[kind.kind].get(key, ("", 0))
        if uid == item["metadata"].get("uid") and version >= version_of(item):
            return False
        self._unlink(kind, key)
        objects[key] = _trimmed(kind, item)
        owner = owner_key(item)
        if owner is not None:
            self._children[kind.kind][owner].add(key)
        return True

    def _unlink(self, kind: Resource, key: Key) -> None:
        """Take an object from the service it was labelled with until now."""
        known = self._objects[kind.kind].get(key)
        owner = None if known is None else owner_key(known)
        if owner is not None:
            self._children[kind.kind][owner].discard(key)

    def remove(self, kind: Resource, item: Object) -> None:
        """Forget an object that was deleted."""
        key = key_of(item)
        known = self._objects[kind.kind].get(key)
        if known is None or known["metadata"].get("uid") == item["metadata"].get("uid"):
            self._unlink(kind, key)
            self._objects[kind.kind].pop(key, None)
            self._bury(kind, item)

    def _bury(self, kind: Resource, item: Object) -> None:
        """Remember an end for a while: events of before it may still be on the way."""
        gone = self._gone[kind.kind]
        gone[key_of(item)] = (item["metadata"].get("uid", ""), version_of(item))
        while len(gone) > MAX_GONE:
            gone.pop(next(iter(gone)))

    def get(self, kind: Resource, namespace: str, name: str) -> Object | None:
        """One object, or None."""
        return self._objects[kind.kind].get((namespace, name))

    def children(self, kind: Resource, namespace: str, service: str) -> list[Object]:
        """Objects of a kind labelled with a service, by name."""
        keys = self._children[kind.kind].get((namespace, service), set())
        return [self._objects[kind.kind][key] for key in sorted(keys)]

    def in_namespace(self, kind: Resource, namespace: str) -> list[Object]:
        """All objects of a kind in a namespace."""
        return [item for key, item in self._objects[kind.kind].items() if key[0] == namespace]

    def keys(self, kind: Resource) -> list[Key]:
        """All keys of a kind."""
        return list(self._objects[kind.kind])

    def relist(self, kind: Resource, before: Iterable[Object], items: Iterable[Object]) -> None:
        """Take over a fresh list: repairs missed events.

        Args:
            kind: Of all objects.
            before: Those that were known when the list was asked for. What came since may be
                younger than the list, and stays.
            items: The list.
        """
        fresh = {key_of(item): item for item in items}
        for known in before:
            if key_of(known) not in fresh:
                self.remove(kind, known)
        for item in fresh.values():
            self.put(kind, item)

    def forget_kind(self, kind: Resource) -> None:
        """Drop all objects of a kind that is gone itself."""
        for item in list(self._objects[kind.kind].values()):
            self.remove(kind, item)

    def forget_service(self, namespace: str, service: str) -> None:
        """Drop everything about a service that no longer exists."""
        for kind in list(self._children):
            for key in self._children[kind].pop((namespace, service), set()):
                self._objects[kind].pop(key, None)
                self._gone[kind].pop(key, None)


def owner_key(item: Object) -> Key | None:
    """Namespace and derived name of the service an object is labelled with."""
    metadata = item["metadata"]
    service = (metadata.get("labels") or {}).get(LABEL_SERVICE)
    return (metadata.get("namespace", ""), service) if service else None


def _trimmed(kind: Resource, item: Object) -> Object:
    """The object without what no pass reads; there are thousands of them."""
    light = item if kind != POD else {**item, "spec": _asked(item.get("spec") or {})}
    # Managed fields weigh as much as the object; only a Deployment's tell who wrote replicas,
    # our own what has been taken from us, and the names of others by whom.
    fields = item["metadata"].get("managedFields")
    if kind == DEPLOYMENT or fields is None:
        return light
    own = [
        each if is_own(each) else {k: v for k, v in each.items() if k != "fieldsV1"}
        for each in fields
        if kind in CHILDREN
    ]
    metadata = {k: v for k, v in item["metadata"].items() if k != "managedFields"}
    return {**light, "metadata": {**metadata, **({"managedFields": own} if own else {})}}


def _asked(spec: Object) -> Object:
    """Of a pod's specification, what its containers ask for: all else is the Deployment's."""
    kept = ("name", "resources")
    return {
        "containers": [
            {key: each[key] for key in kept if key in each} for each in spec.get("containers") or ()
        ]
    }
