"""Schedules and freeze windows of a spec: whether they say a time, and how they are shown."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from math import isfinite

from paceline_operator.api.conditions import timestamp
from paceline_operator.api.status import CalendarStatus
from paceline_operator.api.v1alpha1 import InferenceServiceSpec
from paceline_operator.autopilot.vocabulary.policy import recurrence
from paceline_operator.autopilot.vocabulary.recurrence import Recurrence, flaw
from paceline_operator.autopilot.vocabulary.timetable import Timetable
from paceline_operator.domain.errors import InvalidCalendarError


def check(spec: InferenceServiceSpec) -> None:
    """Refuse what the schema cannot: cron expressions and time zones without a meaning.

    Raises:
        InvalidCalendarError: One of them has none.
    """
    lists = (
        ("scaling.schedules", spec.scaling.schedules),
        ("freezeWindows", spec.freeze_windows),
    )
    for place, windows in lists:
        for window in windows:
            found = _flaw(recurrence(window))
            if found is not None:
                raise InvalidCalendarError(f"spec.{place}[{window.name}]: {found}")


@lru_cache(maxsize=4096)
def _flaw(found: Recurrence) -> str | None:
    """Of the same words the same: a pass over an object looks at all of its windows."""
    return flaw(found)


def shown(found: Timetable | None) -> CalendarStatus | None:
    """The calendar in the words of the status: changes alone, so that it is seldom written."""
    if found is None:
        return None
    return CalendarStatus(
        min_replicas=found.min_replicas,
        schedule=None if found.floor is None else found.floor.schedule,
        min_replicas_changes_at=_time(found.changes_s),
        next_min_replicas=found.next_min_replicas,
        frozen_by=None if found.frozen is None else found.frozen.window,
        frozen_until=None if found.frozen is None else _time(found.frozen.ends_s),
        next_freeze_at=_time(found.freezes_s),
    )


def _time(seconds: float | None) -> str | None:
    if seconds is None or not isfinite(seconds):
        return None
    return timestamp(datetime.fromtimestamp(seconds, UTC))
