"""Whose an object is. Of another's, neither the object nor what it holds is taken over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def belongs(item: Mapping[str, Any], uid: str) -> bool:
    """Whether an object is a child of the one with this UID, whatever its name and labels say."""
    owners = item["metadata"].get("ownerReferences") or ()
    return bool(uid) and any(each.get("uid") == uid for each in owners)
