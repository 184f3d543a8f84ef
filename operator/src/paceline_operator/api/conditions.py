"""The conditions of an `InferenceService`, set as kstatus and Argo read them.

`Reconciling` and `Stalled` are abnormal-true: kstatus takes an object as current where
`observedGeneration` is that of the spec and neither is True. Every condition exists from the
first pass on, each pass sets all of it, and the time of a change comes from the caller.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from paceline_operator.api.choice import ConditionStatus
from paceline_operator.api.status import Condition

MAX_MESSAGE_LENGTH = 2048


class ConditionType(StrEnum):
    """What a condition is about."""

    READY = "Ready"
    """Live pods serve, as many as wanted."""
    RECONCILING = "Reconciling"
    """On the way to the spec: pods roll, start or leave."""
    STALLED = "Stalled"
    """Cannot get to the spec without a person."""
    METRICS_FRESH = "MetricsFresh"
    """Every ready pod was measured lately."""
    SLO_MET = "SLOMet"
    """Every objective holds over its window."""
    SLO_FEASIBLE = "SLOFeasible"
    """The model says that the objectives can be met within the limits."""
    SCALING_LIMITED = "ScalingLimited"
    """A limit, a pause or a manual floor holds replicas away from the recommendation."""
    CONFLICT = "Conflict"
    """Someone else writes replicas, and that knob has yielded; or drains engines."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one pass found about one condition.

    Attributes:
        status: Whether it holds.
        reason: One CamelCase word.
        message: The cause in plain words.
    """

    status: ConditionStatus
    reason: str
    message: str = ""


_NOT_YET = "NotYetObserved"
_INITIAL = {
    ConditionType.READY: Verdict(ConditionStatus.FALSE, _NOT_YET, "no pods were seen yet"),
    ConditionType.RECONCILING: Verdict(ConditionStatus.TRUE, _NOT_YET, "first pass"),
    ConditionType.STALLED: Verdict(ConditionStatus.FALSE, "Progressing"),
    ConditionType.METRICS_FRESH: Verdict(ConditionStatus.UNKNOWN, _NOT_YET, "no scrape yet"),
    ConditionType.SLO_MET: Verdict(ConditionStatus.UNKNOWN, _NOT_YET, "no samples yet"),
    ConditionType.SLO_FEASIBLE: Verdict(ConditionStatus.UNKNOWN, _NOT_YET, "no estimate yet"),
    ConditionType.SCALING_LIMITED: Verdict(ConditionStatus.FALSE, "NotLimited"),
    ConditionType.CONFLICT: Verdict(ConditionStatus.FALSE, "NoConflict"),
}


def timestamp(at: datetime) -> str:
    """A moment as the API writes it: UTC, whole seconds, `Z`.

    Args:
        at: Moment with a time zone.
    """
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def find_condition(conditions: Iterable[Condition], kind: ConditionType) -> Condition | None:
    """The condition of one type, if it was set."""
    return next((each for each in conditions if each.type == kind), None)


def set_condition(
    conditions: tuple[Condition, ...],
    kind: ConditionType,
    verdict: Verdict,
    *,
    generation: int,
    now: datetime,
) -> tuple[Condition, ...]:
    """Conditions with one of them set; all of it is replaced.

    The transition time moves only where `status` differs from before. Order is that of
    `ConditionType`, and unknown types of a newer operator stay, at the end.

    Args:
        conditions: As stored.
        kind: Which one to set.
        verdict: What was found.
        generation: Generation of the spec it was found for.
        now: Moment of the pass.
    """
    before = find_condition(conditions, kind)
    is_same = before is not None and before.status == verdict.status
    new = Condition(
        type=kind.value,
        status=verdict.status.value,
        reason=verdict.reason,
        message=_shortened(verdict.message),
        observed_generation=generation,
        last_transition_time=(
            before.last_transition_time if before is not None and is_same else timestamp(now)
        ),
    )
    rest = tuple(each for each in conditions if each.type != kind)
    return tuple(sorted((*rest, new), key=_rank))


def initial_conditions(
    conditions: tuple[Condition, ...], *, generation: int, now: datetime
) -> tuple[Condition, ...]:
    """Conditions with every missing one added as not yet observed."""
    for kind, verdict in _INITIAL.items():
        if find_condition(conditions, kind) is None:
            conditions = set_condition(conditions, kind, verdict, generation=generation, now=now)
    return conditions


def set_progress(
    conditions: tuple[Condition, ...],
    *,
    reconciling: Verdict | None,
    stalled: Verdict | None,
    generation: int,
    now: datetime,
) -> tuple[Condition, ...]:
    """Set `Reconciling` and `Stalled` so that at most one is True.

    Args:
        conditions: As stored.
        reconciling: What is under way, if anything.
        stalled: What needs a person, if anything; outranks `reconciling`.
        generation: Generation of the spec it was found for.
        now: Moment of the pass.
    """
    settled = Verdict(ConditionStatus.FALSE, "Settled")
    if stalled is not None:
        moving = Verdict(ConditionStatus.FALSE, "Stalled", stalled.message)
    else:
        moving = reconciling or settled
    stopped = stalled or Verdict(ConditionStatus.FALSE, "Progressing" if reconciling else "Settled")
    for kind, verdict in (
        (ConditionType.RECONCILING, moving),
        (ConditionType.STALLED, stopped),
    ):
        conditions = set_condition(conditions, kind, verdict, generation=generation, now=now)
    return conditions


def _rank(condition: Condition) -> tuple[int, str]:
    known = list(ConditionType)
    position = known.index(ConditionType(condition.type)) if condition.type in known else len(known)
    return position, condition.type


def _shortened(message: str) -> str:
    if len(message) <= MAX_MESSAGE_LENGTH:
        return message
    return message[: MAX_MESSAGE_LENGTH - 1] + "…"
