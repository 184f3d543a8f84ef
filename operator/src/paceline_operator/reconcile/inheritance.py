"""What a process takes over of an earlier one: read once, when it first sees an object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from paceline_operator.api.status import InferenceServiceStatus
from paceline_operator.autopilot.vocabulary.memory import load_memory
from paceline_operator.domain import blast_radius, pinned
from paceline_operator.kube.read import fetch_all
from paceline_operator.kube.resource import INFERENCE_SERVICE
from paceline_operator.kube.store import Key
from paceline_operator.reconcile.context import Context
from paceline_operator.reconcile.session import Session, load_strays, load_writers


async def take_over_changes(ctx: Context, namespaces: Sequence[str]) -> None:
    """Go on counting what was changed in the last minute, before anything is changed.

    All objects' statuses are read at once: a process that learned of each with its first pass
    would have most of the limit to spend once more.

    Raises:
        KubeError: They cannot be listed.
    """
    for namespace in namespaces or (None,):
        for service in await fetch_all(ctx.client, INFERENCE_SERVICE, namespace):
            metadata, stored = service["metadata"], service.get("status")
            memory = stored.get("memory") if isinstance(stored, Mapping) else None
            key = str(metadata["namespace"]), str(metadata["name"])
            join_changes(ctx, memory, key)


def join_changes(ctx: Context, stored: Mapping[str, Any] | None, key: Key) -> None:
    """Count one object's changes as its status remembers them, unless they are known."""
    found = blast_radius.load(stored, key, ctx.clock())
    ctx.changes = blast_radius.joined(ctx.changes, found)


def take_over(
    session: Session,
    service: Mapping[str, Any],
    status: InferenceServiceStatus,
    deployment: Mapping[str, Any] | None,
    now_s: float,
) -> None:
    """Go on from what is stored, unless this process does already.

    Args:
        session: Gets `memory`, `writers`, `strays` and `pinned`, and when they were taken over.
        service: The object as stored.
        status: Its status as far as it is understood.
        deployment: The engines' Deployment where it belongs to the object.
        now_s: Moment of the pass.
    """
    if session.memory is not None:
        return
    pilot = (status.memory or {}).get("pilot")
    session.memory = load_memory(pilot if isinstance(pilot, Mapping) else None)
    session.writers = load_writers(status.memory, now_s)
    session.strays = load_strays(status.memory, now_s)
    # As it is stored: nothing else in a status may cost the fleet a restart.
    session.pinned = pinned.inherited(service.get("status"), deployment)
    if status.conditions:
        session.inherit(now_s)
