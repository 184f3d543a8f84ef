"""Brings children to their manifests, each only where it differs."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

from paceline_operator.domain import contest
from paceline_operator.domain.difference import digest
from paceline_operator.kube.apply import apply
from paceline_operator.kube.read import fetch
from paceline_operator.kube.resource import BY_KIND, CHILDREN, DEPLOYMENT, SECRET, Resource
from paceline_operator.reconcile.context import Context
from paceline_operator.reconcile.observed import Observed
from paceline_operator.reconcile.session import Session

KINDS = tuple(kind.kind for kind in CHILDREN)
log = logging.getLogger(__name__)


async def bring_about(
    ctx: Context,
    session: Session,
    seen: Observed,
    manifests: tuple[Mapping[str, Any], ...],
    replicas: int | None,
) -> int:
    """Apply what differs; returns how many children were written.

    Args:
        ctx: Where to.
        session: Gets the Secret as written, and who contests which child.
        seen: The children as last seen.
        manifests: What they should be, in the order they must exist in.
        replicas: What the engines' Deployment is made with.

    Raises:
        ConflictError: A child changed meanwhile or belongs to someone else.
        KubeError: Any other refusal.
    """
    written = 0
    session.contests = contest.pruned(session.contests, seen.now_s)
    for manifest in manifests:
        kind, name = BY_KIND[manifest["kind"]], manifest["metadata"]["name"]
        key, mark = (kind.kind, name), digest(manifest)
        live = seen.children.get(key)
        if live is not None and session.compared.get(key) == (mark, _version(live)):
            continue  # Nothing has changed on either side since both were found to agree.
        if live is None:
            # One without our labels is not watched; it must not be taken over.
            live = await fetch(ctx.client, kind, seen.namespace, name)
        applied = await apply(
            ctx.client,
            dict(manifest),
            None if live is None else dict(live),
            replicas=_at_first(kind, manifest, replicas),
            is_held=partial(_is_held, session, manifest, seen.now_s),
        )
        session.applied[key] = mark
        if not applied.written:
            if not applied.held and _version(applied.child)[1]:
                session.compared[key] = mark, _version(applied.child)
            continue
        written += 1
        log.info("applied %s %s/%s", kind.kind, seen.namespace, name)
        if kind is SECRET:
            # Not in the store: it is of no use to others, and is read by name alone.
            session.secret = applied.child
        else:
            ctx.store.put(kind, applied.child)
    return written


def _version(live: Mapping[str, Any]) -> tuple[str, str]:
    return live["metadata"].get("uid", ""), live["metadata"].get("resourceVersion", "")


def _is_held(
    session: Session, manifest: Mapping[str, Any], now_s: float, live: Mapping[str, Any]
) -> bool:
    """Whether the same one took from a child what we applied, again and again."""
    kind, name = manifest["kind"], manifest["metadata"]["name"]
    if session.applied.get((kind, name)) != digest(manifest):
        return False
    key = kind, name, contest.taker(live)
    known = session.contests.get(key, contest.Contest())
    session.contests[key] = known.after(now_s)
    return not known.is_due(now_s)


def _at_first(kind: Resource, manifest: Mapping[str, Any], replicas: int | None) -> int | None:
    """Replicas to make a child with; none where it has none, or its manifest says them."""
    if kind is not DEPLOYMENT or "replicas" in manifest["spec"]:
        return None
    # Too few is mended by the write to `/scale` that follows; a pod too many has run.
    return replicas or 0
