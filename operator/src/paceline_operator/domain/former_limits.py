"""What stored objects may hold though it is not admitted any more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paceline_operator.api.v1alpha1 import MAX_WINDOW_SECONDS


def shortened(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of objectives that ask for a longer window than measurements are kept for.

    Args:
        spec: As stored; one that cannot be read has none.
    """
    slos = spec.get("slos")
    return tuple(
        str(slo.get("name"))
        for slo in (slos if isinstance(slos, list) else ())
        if isinstance(slo, Mapping) and _seconds(slo) > MAX_WINDOW_SECONDS
    )


def _seconds(slo: Mapping[str, Any]) -> int:
    found = slo.get("windowSeconds")
    return found if isinstance(found, int) else 0
