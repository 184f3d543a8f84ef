"""Does the operator own, as server-side apply keeps it, every field that it declares?

A server takes a field from its owner the moment someone else changes or removes it, also where
values do not show that: a switch that is off and one that is gone, a selector that got a further
label. So what is not owned any more is to be applied again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from paceline_operator.domain.difference import KEY_DEFAULTS
from paceline_operator.domain.names import OPERATOR

_IDENTITY = frozenset({"apiVersion", "kind", "metadata"})
_DECLARED_METADATA = ("labels", "annotations", "ownerReferences")


def is_own(entry: Mapping[str, Any]) -> bool:
    """Whether an entry of `managedFields` says what the operator has applied to the object."""
    return (
        entry.get("manager") == OPERATOR
        and entry.get("operation") == "Apply"
        and not entry.get("subresource")
    )


def holds(manifest: Mapping[str, Any], live: Mapping[str, Any]) -> bool:
    """True where the operator owns all that the manifest declares."""
    owned, metadata = _owned(live), manifest["metadata"]
    declared = {key: value for key, value in manifest.items() if key not in _IDENTITY}
    described = {key: metadata[key] for key in _DECLARED_METADATA if key in metadata}
    return _all_held(declared, owned) and _all_held(described, owned.get("f:metadata", {}))


def owns(live: Mapping[str, Any], *path: str) -> bool:
    """Whether the operator owns a field of an object, given as keys of `fieldsV1`."""
    owned = _owned(live)
    for key in path:
        if key not in owned:
            return False
        owned = owned[key]
    return True


def _owned(live: Mapping[str, Any]) -> Mapping[str, Any]:
    entries = live["metadata"].get("managedFields") or ()
    return next((each.get("fieldsV1") or {} for each in entries if is_own(each)), {})


def _held(value: Any, owned: Mapping[str, Any]) -> bool:
    # Nothing below means that the field is owned as a whole.
    if not owned:
        return True
    if isinstance(value, Mapping):
        return _all_held(value, owned)
    if isinstance(value, list):
        return all(_entry_held(item, owned) for item in value)
    return True


def _all_held(value: Mapping[str, Any], owned: Mapping[str, Any]) -> bool:
    # Of a list without entries nothing is owned.
    return all(
        each == [] or (f"f:{key}" in owned and _held(each, owned[f"f:{key}"]))
        for key, each in value.items()
    )


def _entry_held(item: Any, owned: Mapping[str, Any]) -> bool:
    found = next((key for key in owned if _is_key_of(key, item)), None)
    return found is not None and _held(item, owned[found])


def _is_key_of(key: str, item: Any) -> bool:
    kind, _, text = key.partition(":")
    if kind == "v":
        return bool(json.loads(text) == item)
    if kind != "k" or not isinstance(item, Mapping):
        return False
    return all(item.get(k, KEY_DEFAULTS.get(k)) == v for k, v in json.loads(text).items())
