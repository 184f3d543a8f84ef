"""Tells in an object's status that its passes fail for a reason the operator did not foresee."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from paceline_operator.api.choice import ConditionStatus
from paceline_operator.api.conditions import (
    ConditionType,
    Verdict,
    find_condition,
    initial_conditions,
    set_progress,
)
from paceline_operator.api.status import Condition
from paceline_operator.kube.apply import write_status
from paceline_operator.kube.client import Object
from paceline_operator.kube.errors import LeaseLostError
from paceline_operator.kube.resource import INFERENCE_SERVICE
from paceline_operator.kube.store import Key
from paceline_operator.reconcile.context import Context

log = logging.getLogger(__name__)

REASON = "InternalError"


async def tell(ctx: Context, key: Key, error: Exception) -> None:
    """Write `Stalled=True` over the status as last seen; all but the conditions stays.

    It relies on as little as possible, for it runs after something failed that should not: where
    it fails too, that is only logged. The next good pass writes the conditions anew.

    Args:
        ctx: Where to write.
        key: The object.
        error: What ended its passes. Only its type is told: its text may hold a secret.

    Raises:
        LeaseLostError: This process may not write any more.
    """
    try:
        live = ctx.store.get(INFERENCE_SERVICE, *key)
        if live is None or live["metadata"].get("deletionTimestamp"):
            return
        now = datetime.fromtimestamp(ctx.clock(), UTC)
        status = stalled(live, type(error).__name__, now)
        if status is not None:
            item = await write_status(ctx.client, INFERENCE_SERVICE, live, status)
            ctx.store.put(INFERENCE_SERVICE, item)
    except LeaseLostError:
        raise
    except Exception:
        log.exception("%s/%s: the defect is not in its status", *key)


def stalled(live: Object, kind: str, now: datetime) -> dict[str, Any] | None:
    """The object's status with the defect in its conditions; None where it says so already.

    Args:
        live: The object as last seen.
        kind: Type of the error.
        now: Moment of the pass.
    """
    stored = live.get("status")
    status: Mapping[str, Any] = stored if isinstance(stored, Mapping) else {}
    generation = int(live["metadata"].get("generation", 1))
    verdict = Verdict(
        ConditionStatus.TRUE,
        REASON,
        f"a defect of the operator ends every pass ({kind}): what runs is left as it is; "
        "the operator's log says more, please report it",
    )
    before = _readable(status.get("conditions"))
    known = find_condition(before, ConditionType.STALLED)
    if known is not None and (known.message, known.observed_generation) == (
        verdict.message,
        generation,
    ):
        return None
    conditions = set_progress(
        initial_conditions(before, generation=generation, now=now),
        reconciling=None,
        stalled=verdict,
        generation=generation,
        now=now,
    )
    dumped = [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in conditions]
    # Without the generation, kstatus waits for a pass over it instead of reading the conditions.
    return {**status, "observedGeneration": generation, "conditions": dumped}


def _readable(stored: Any) -> tuple[Condition, ...]:
    """Conditions as far as they can be read: a stored one may be what the passes fail at."""
    found = []
    for each in stored if isinstance(stored, list) else ():
        try:
            found.append(Condition.model_validate(each))
        except ValidationError:
            continue
    return tuple(found)
