"""Lays one pod template over another.

Lists merge by key where DESIGN names one (containers, initContainers, volumes, env by name;
volumeMounts by mountPath; ports by containerPort); every other list is replaced.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paceline_operator.domain.errors import InvalidOverlayError

MERGE_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "env": "name",
    "volumeMounts": "mountPath",
    "ports": "containerPort",
}


def lay_over(base: Mapping[str, Any], overlay: Mapping[str, Any]) -> dict[str, Any]:
    """Merge `overlay` into `base`; a null in the overlay removes the key.

    Raises:
        InvalidOverlayError: A keyed list holds something that is not an object with its key.
    """
    merged = dict(base)
    for key, value in overlay.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _lay_value(key, merged.get(key), value)
    return merged


def _lay_value(key: str, old: Any, new: Any) -> Any:
    if key in MERGE_KEYS:
        return _merge_list(key, old or [], new)
    if isinstance(new, Mapping) and isinstance(old, Mapping):
        return lay_over(old, new)
    return new


def _merge_list(key: str, old: list[Any], new: Any) -> list[Any]:
    items = {_identity(key, item): item for item in old}
    if not isinstance(new, list):
        raise InvalidOverlayError(f"template: {key} must be a list, not {type(new).__name__}")
    for item in new:
        identity = _identity(key, item)
        items[identity] = lay_over(items.get(identity, {}), item)
    return list(items.values())


def _identity(key: str, item: Any) -> Any:
    field = MERGE_KEYS[key]
    if not isinstance(item, Mapping) or field not in item:
        raise InvalidOverlayError(f"template: every entry of {key} needs {field}")
    return item[field]
