"""Lays one pod template over another.

Lists merge by key where DESIGN names one (containers, initContainers, volumes, env by name;
volumeMounts by mountPath; ports by containerPort); every other list is replaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from paceline_operator.domain.errors import InvalidOverlayError

MAX_DEPTH = 64
"""Far more than a pod template has, far less than what recursion over it can bear."""
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
        InvalidOverlayError: A keyed list holds something that is not an object with its key,
            or its key is neither text nor a number.
    """
    merged = dict(base)
    for key, value in overlay.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _lay_value(key, merged.get(key), value)
    return merged


def check_depth(overlay: Mapping[str, Any]) -> None:
    """Refuse what is nested deeper than any pod template.

    Raises:
        InvalidOverlayError: It is.
    """
    level: list[Any] = [overlay]
    for _ in range(MAX_DEPTH):
        level = [inner for each in level for inner in _inside(each)]
    if level:
        raise InvalidOverlayError(f"template: nested more than {MAX_DEPTH} levels deep")


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list) else ()


def _lay_value(key: str, old: Any, new: Any) -> Any:
    # Labels and selectors may bear the name of a list: `env: prod`.
    is_text = isinstance(new, str) and not isinstance(old, list)
    if key in MERGE_KEYS and not is_text:
        return _merge_list(key, old, new)
    if isinstance(new, Mapping) and isinstance(old, Mapping):
        return lay_over(old, new)
    return new


def _merge_list(key: str, old: Any, new: Any) -> list[Any]:
    if not isinstance(new, list):
        raise InvalidOverlayError(f"template: {key} must be a list, not {type(new).__name__}")
    items = {_identity(key, item): item for item in (old if isinstance(old, list) else ())}
    for item in new:
        identity = _identity(key, item)
        items[identity] = lay_over(items.get(identity, {}), item)
    return list(items.values())


def _identity(key: str, item: Any) -> Any:
    field = MERGE_KEYS[key]
    if not isinstance(item, Mapping) or field not in item:
        raise InvalidOverlayError(f"template: every entry of {key} needs {field}")
    if not is_identity(item[field]):
        raise InvalidOverlayError(
            f"template: {field} of an entry of {key} must be text or a number, "
            f"not {type(item[field]).__name__}"
        )
    return item[field]


def is_identity(value: Any) -> bool:
    """Whether entries of a keyed list can be told apart by this."""
    return isinstance(value, str | int)
