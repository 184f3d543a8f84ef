"""Whose an object is. Of another's, neither the object nor what it holds is taken over."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from paceline_operator.domain.arguments import TOKEN_FILE
from paceline_operator.domain.field_set import owns
from paceline_operator.domain.names import LABEL_MANAGED_BY, LABEL_SERVICE, OPERATOR

_HASH = re.compile("[a-z0-9]+")
"""What a Deployment's controller adds to its name to name a ReplicaSet."""


def belongs(item: Mapping[str, Any], uid: str) -> bool:
    """Whether an object is a child of the one with this UID, whatever its name and labels say."""
    owners = item["metadata"].get("ownerReferences") or ()
    return bool(uid) and any(each.get("uid") == uid for each in owners)


def is_child(item: Mapping[str, Any], uid: str, service: str) -> bool:
    """Whether an object is a child of the one with this UID, or one that lost its reference to it.

    The latter bears the service's labels, has no other controller, and we have applied it. Of a
    Secret we must own the data still: one that someone filled anew is theirs.

    Args:
        item: The object.
        uid: UID of the service.
        service: Value of the label `paceline.dev/service` of its children.
    """
    if belongs(item, uid):
        return True
    metadata = item["metadata"]
    marks = metadata.get("labels") or {}
    if (marks.get(LABEL_SERVICE), marks.get(LABEL_MANAGED_BY)) != (service, OPERATOR):
        return False
    if any(each.get("controller") for each in metadata.get("ownerReferences") or ()):
        return False
    held = ("f:data", f"f:{TOKEN_FILE}") if item.get("kind") == "Secret" else ("f:metadata",)
    return bool(uid) and owns(item, *held)


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
