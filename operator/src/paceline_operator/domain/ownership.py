"""Who else writes replicas, and when that knob yields to them.

One foreign write is a disturbance: its value is adopted. Two by one manager within ten
minutes, or an autoscaler that targets the Deployment, make the knob yield until ten minutes
after the last sign of the other.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from paceline_operator.domain.names import OPERATOR
from paceline_operator.domain.pods import seconds

WINDOW_S = 600.0
MAX_KEPT = 8


@dataclass(frozen=True, slots=True)
class Write:
    """Replicas were written by `manager` at `time_s`."""

    manager: str
    time_s: float


def foreign_write(deployment: Mapping[str, Any]) -> Write | None:
    """Who wrote the replicas in force, None where that was the operator or nobody.

    A manager that wrote the value the operator had written shares the field; that is no
    disturbance.
    """
    owners = _owners(deployment)
    if not owners or any(entry.get("manager") == OPERATOR for entry in owners):
        return None
    last = max(owners, key=lambda entry: seconds(entry.get("time")) or 0.0)
    return Write(str(last.get("manager", "unknown")), seconds(last.get("time")) or 0.0)


def is_claimed(deployment: Mapping[str, Any]) -> bool:
    """Whether anybody is known to own the replicas.

    Until somebody has applied them through `/scale`, a server does not track who scales; so
    the operator writes them once even where the value is right.
    """
    return bool(_owners(deployment))


def _owners(deployment: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [
        entry
        for entry in deployment["metadata"].get("managedFields") or ()
        if "f:replicas" in (entry.get("fieldsV1") or {}).get("f:spec", {})
    ]


def noted(known: tuple[Write, ...], write: Write | None, now_s: float) -> tuple[Write, ...]:
    """Writes to remember: the known ones that still count, and a new one.

    The newest stays for good: a write is new only if it was not seen before.
    """
    if write is not None and write not in known:
        known = (*known, write)
    recent = tuple(each for each in known if now_s - each.time_s <= 2 * WINDOW_S)
    return (recent or known[-1:])[-MAX_KEPT:]


def fighter(known: Iterable[Write], now_s: float) -> str | None:
    """Manager the knob yields to: two writes within the window, the last one within it too."""
    by_manager: dict[str, list[float]] = {}
    for write in known:
        by_manager.setdefault(write.manager, []).append(write.time_s)
    for manager, times in sorted(by_manager.items()):
        ordered = sorted(times)
        close = any(b - a <= WINDOW_S for a, b in itertools.pairwise(ordered))
        if close and now_s - ordered[-1] <= WINDOW_S:
            return manager
    return None


def autoscaler_of(items: Iterable[Mapping[str, Any]], deployment: str) -> str | None:
    """Kind and name of an autoscaler that targets the Deployment."""
    for item in items:
        target = (item.get("spec") or {}).get("scaleTargetRef") or {}
        is_deployment = target.get("kind", "Deployment") == "Deployment"
        if is_deployment and target.get("name") == deployment:
            return f"{item.get('kind', 'Autoscaler')} {item['metadata']['name']}"
    return None
