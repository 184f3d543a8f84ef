"""Signs of life that cannot be left from before: when a Lease was last renewed. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any


def renewed_after(lease: Mapping[str, Any], at_s: float) -> bool:
    """Whether its holder renewed it after a time.

    A Ready condition says little here: for as long as the node's grace period nobody doubts
    it, whatever has become of the kubelet. A renewal is written by the living alone.

    Args:
        lease: The object.
        at_s: Unix time.
    """
    spec = lease.get("spec", {})
    renewed = spec.get("renewTime")
    if not spec.get("holderIdentity") or renewed is None:
        return False
    return datetime.fromisoformat(renewed).timestamp() > at_s
