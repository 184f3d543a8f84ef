"""Brings children to their manifests, each only where it differs."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from paceline_operator.kube.apply import apply
from paceline_operator.kube.read import fetch
from paceline_operator.kube.resource import BY_KIND, SECRET
from paceline_operator.reconcile.context import Context
from paceline_operator.reconcile.observed import Observed
from paceline_operator.reconcile.session import Session

log = logging.getLogger(__name__)


async def bring_about(
    ctx: Context, session: Session, seen: Observed, manifests: tuple[Mapping[str, Any], ...]
) -> int:
    """Apply what differs; returns how many children were written.

    Raises:
        ConflictError: A child changed meanwhile or belongs to someone else.
        KubeError: Any other refusal.
    """
    written = 0
    for manifest in manifests:
        kind, name = BY_KIND[manifest["kind"]], manifest["metadata"]["name"]
        live = seen.children.get((kind.kind, name))
        if live is None:
            # One without our labels is not watched; it must not be taken over.
            live = await fetch(ctx.client, kind, seen.namespace, name)
        applied = await apply(ctx.client, dict(manifest), None if live is None else dict(live))
        if not applied.written:
            continue
        written += 1
        log.info("applied %s %s/%s", kind.kind, seen.namespace, name)
        ctx.store.put(kind, applied.child)
        if kind is SECRET:
            session.secret = applied.child
    return written
