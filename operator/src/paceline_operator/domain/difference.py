"""Does a live object already say what a manifest says? Decides whether to write at all.

Only the manifest's own fields are compared, so what others or server defaults add is no
difference. A field that we stop declaring shows in the hash annotation, not here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from paceline_operator.domain import quantity
from paceline_operator.domain.names import ANNOTATION_APPLIED
from paceline_operator.domain.overlay import MERGE_KEYS, is_identity

Keys = tuple[str, ...]
ENTRY_KEYS: dict[str, tuple[Keys, ...]] = {
    **{name: ((field,),) for name, field in MERGE_KEYS.items()},
    "ports": (("containerPort", "protocol"), ("port", "protocol")),
    "topologySpreadConstraints": (("topologyKey", "whenUnsatisfiable"),),
    "ownerReferences": (("uid",),),
    "imagePullSecrets": (("name",),),
    "hostAliases": (("ip",),),
    "volumeDevices": (("devicePath",),),
    "resourceClaims": (("name",),),
    "claims": (("name",),),
    "schedulingGates": (("name",),),
    "ephemeralContainers": (("name",),),
    "evictionResponders": (("name",),),
}
"""What entries of a list are told apart by where a server merges them: others may add theirs.

`ports` are keyed in two ways, as containers and as Services have them.
"""
KEY_DEFAULTS = {"protocol": "TCP"}
"""Parts of an entry's key that a manifest may leave out."""
_QUANTITIES = frozenset({"requests", "limits", "sizeLimit"})
_EMPTY: tuple[Any, ...] = (None, "", [], {}, False, 0)


def digest(manifest: Any) -> str:
    """Short stable hash of plain data."""
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def stamped(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest with the hash of itself as an annotation of the object."""
    metadata = dict(manifest["metadata"])
    annotations = {**metadata.get("annotations", {}), ANNOTATION_APPLIED: digest(manifest)}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


def differs(desired: Any, live: Any, key: str = "") -> bool:
    """True where `live` lacks or contradicts something `desired` declares."""
    if isinstance(desired, Mapping):
        return _mapping_differs(desired, live, key)
    if isinstance(desired, list):
        return _list_differs(desired, live, key)
    if key in _QUANTITIES:
        return quantity.parse(desired) != quantity.parse(live)
    return bool(desired != live) and not (desired in _EMPTY and live in _EMPTY)


def _mapping_differs(desired: Mapping[str, Any], live: Any, key: str) -> bool:
    if not isinstance(live, Mapping):
        return bool(desired) or live is not None
    quantities = key in _QUANTITIES
    return any(
        differs(value, live.get(name), key if quantities else name)
        for name, value in desired.items()
    )


def _list_differs(desired: list[Any], live: Any, key: str) -> bool:
    if not isinstance(live, list):
        return bool(desired)
    keys = _entry_keys(desired, key)
    if keys is not None:
        found = {_identity(item, keys): item for item in live if isinstance(item, Mapping)}
        return any(differs(item, found.get(_identity(item, keys))) for item in desired)
    return len(desired) != len(live) or any(
        differs(one, other) for one, other in zip(desired, live, strict=True)
    )


def _entry_keys(desired: list[Any], name: str) -> Keys | None:
    """What every entry of a list has that tells it apart; None where it is compared in order."""
    for keys in ENTRY_KEYS.get(name, ()):
        found = [_identity(item, keys) for item in desired if isinstance(item, Mapping)]
        if len(found) == len(desired) and None not in found:
            return keys if len(set(found)) == len(found) else None
    return None


def _identity(item: Mapping[str, Any], keys: Keys) -> tuple[Any, ...] | None:
    found = tuple(item.get(key, KEY_DEFAULTS.get(key)) for key in keys)
    return found if all(map(is_identity, found)) else None
