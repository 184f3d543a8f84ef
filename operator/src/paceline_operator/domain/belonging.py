"""Whose an object is. Of another's, neither the object nor what it holds is taken over."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_HASH = re.compile("[a-z0-9]+")
"""What a Deployment's controller adds to its name to name a ReplicaSet."""


def belongs(item: Mapping[str, Any], uid: str) -> bool:
    """Whether an object is a child of the one with this UID, whatever its name and labels say."""
    owners = item["metadata"].get("ownerReferences") or ()
    return bool(uid) and any(each.get("uid") == uid for each in owners)


def is_replica(pod: Mapping[str, Any], deployment: str) -> bool:
    """Whether a pod was made for a Deployment of this name, whatever its labels say.

    Its controller is the Deployment's ReplicaSet. Those are not read, so as not to need the
    right; their names tell, because only a Deployment's controller makes them in this form.
    """
    owners = pod["metadata"].get("ownerReferences") or ()
    made_by: Mapping[str, Any] = next((each for each in owners if each.get("controller")), {})
    kind = (str(made_by.get("apiVersion", "")).partition("/")[0], made_by.get("kind"))
    head, _, tail = str(made_by.get("name", "")).rpartition("-")
    is_named = bool(head) and head == deployment and _HASH.fullmatch(tail) is not None
    return kind == ("apps", "ReplicaSet") and is_named
