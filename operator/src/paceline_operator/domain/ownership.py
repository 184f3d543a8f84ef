"""Who else writes replicas, and when that knob yields to them.

One foreign write is a disturbance: its value is adopted for one cool-down. Two by one manager
within ten minutes, or an autoscaler that targets the Deployment, make the knob yield until ten
minutes after the last sign of the other.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from paceline_operator.domain.names import OPERATOR
from paceline_operator.domain.pods import seconds

WINDOW_S = 600.0
ADOPTED_S = 60.0
MAX_KEPT = 8


@dataclass(frozen=True, slots=True)
class Write:
    """Replicas were written by someone else.

    Attributes:
        manager: Field manager of the writer.
        time_s: When the operator saw it; a server keeps no time for writes of `/scale`.
        replicas: The value.
        in_force: Whether it still stands; the operator has not written since.
    """

    manager: str
    time_s: float
    replicas: int
    in_force: bool = True


def foreign_owner(deployment: Mapping[str, Any]) -> str | None:
    """Who wrote the replicas in force, None where that was the operator or nobody.

    A manager that wrote the value the operator had written shares the field; that is no
    disturbance.
    """
    owners = _owners(deployment)
    if not owners or any(entry.get("manager") == OPERATOR for entry in owners):
        return None
    last = max(owners, key=lambda entry: seconds(entry.get("time")) or 0.0)
    return str(last.get("manager", "unknown"))


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


def noted(
    known: tuple[Write, ...], owner: str | None, replicas: int, now_s: float
) -> tuple[tuple[Write, ...], Write | None]:
    """Writes to remember, and the one that is new.

    Args:
        known: Writes remembered so far, oldest first.
        owner: Who wrote the replicas in force, None for the operator.
        replicas: Replicas in force.
        now_s: Moment of the pass.
    """
    last = known[-1] if known else None
    if owner is None:
        if last is not None and last.in_force:
            known = (*known[:-1], replace(last, in_force=False))
        return _recent(known, now_s), None
    if last is not None and last.in_force and (last.manager, last.replicas) == (owner, replicas):
        return _recent(known, now_s), None
    new = Write(owner, now_s, replicas)
    return _recent((*known, new), now_s), new


def _recent(known: tuple[Write, ...], now_s: float) -> tuple[Write, ...]:
    """What still counts; one in force stays, or it would look new again."""
    kept = tuple(each for each in known if each.in_force or now_s - each.time_s <= 2 * WINDOW_S)
    return kept[-MAX_KEPT:]


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


def adopted(known: tuple[Write, ...], now_s: float) -> str | None:
    """Manager whose value stands for now: the last write, while it is young and in force."""
    last = known[-1] if known else None
    if last is None or not last.in_force or now_s - last.time_s >= ADOPTED_S:
        return None
    return last.manager


def autoscaler_of(items: Iterable[Mapping[str, Any]], deployment: str) -> str | None:
    """Kind and name of an autoscaler that targets the Deployment."""
    for item in items:
        target = (item.get("spec") or {}).get("scaleTargetRef") or {}
        is_deployment = target.get("kind", "Deployment") == "Deployment"
        if is_deployment and target.get("name") == deployment:
            return f"{item.get('kind', 'Autoscaler')} {item['metadata']['name']}"
    return None
