"""The calendar: which minimum holds when, what is ordered ahead, and what is frozen."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from paceline_operator.api.choice import FreezeScope
from paceline_operator.autopilot.vocabulary.policy import Freeze, Policy, Schedule
from paceline_operator.autopilot.vocabulary.recurrence import Recurrence
from paceline_operator.autopilot.vocabulary.timetable import floor, frozen, timetable
from tests.operator.autopilot.build import auto


def at(hour: int, minute: int = 0, day: int = 1) -> float:
    return datetime(2026, 6, day, hour, minute, tzinfo=UTC).timestamp()


def schedule(name: str, start: str, end: str, least: int) -> Schedule:
    return Schedule(name=name, recurrence=Recurrence(start=start, end=end), min_replicas=least)


def freeze(name: str, start: str, hours: float, scope: FreezeScope = FreezeScope.ALL) -> Freeze:
    window = Recurrence(start=start, duration_s=3600 * hours)
    return Freeze(name=name, recurrence=window, scope=scope)


DAY = schedule("day", "0 8 * * *", "0 18 * * *", 4)
NOON = schedule("noon", "0 12 * * *", "0 13 * * *", 6)


def planned(**more: object) -> Policy:
    return auto(min_replicas=2, max_replicas=8, schedules=(DAY, NOON), **more)


@pytest.mark.parametrize(
    ("now_s", "ahead_s", "expected"),
    [
        (at(7, 57), 120.0, None),
        (at(7, 58), 120.0, ("day", 4)),
        (at(8), 0.0, ("day", 4)),
        (at(11, 59), 120.0, ("noon", 6)),
        (at(12, 30), 120.0, ("noon", 6)),
        (at(13), 120.0, ("day", 4)),
        (at(18), 120.0, None),
    ],
)
def test_the_highest_minimum_holds_and_is_ordered_ahead(
    now_s: float, ahead_s: float, expected: tuple[str, int] | None
) -> None:
    found = floor(planned(), now_s, ahead_s)
    assert (None if found is None else (found.schedule, found.replicas)) == expected


def test_the_status_tells_the_next_change_of_the_minimum_not_of_each_schedule() -> None:
    low = schedule("low", "0 9 * * *", "0 10 * * *", 3)
    found = timetable(planned(), at(13, 30), 0.0)
    assert found is not None
    assert (found.min_replicas, found.changes_s, found.next_min_replicas) == (4, at(18), 2)
    covered = timetable(auto(min_replicas=2, schedules=(DAY, low)), at(8, 30), 0.0)
    assert covered is not None
    assert (covered.changes_s, covered.next_min_replicas) == (at(18), 2)


def test_the_maximum_bounds_what_a_schedule_asks_for() -> None:
    found = timetable(auto(max_replicas=3, schedules=(DAY,)), at(9), 0.0)
    assert found is not None
    assert found.min_replicas == 3


def test_no_calendar_is_none() -> None:
    assert timetable(auto(), at(9), 60.0) is None


def test_a_schedule_that_never_binds_changes_nothing() -> None:
    found = timetable(auto(min_replicas=5, schedules=(DAY,)), at(9), 0.0)
    assert found is not None
    assert (found.min_replicas, found.changes_s, found.next_min_replicas) == (5, None, None)


def test_of_two_freezes_the_one_that_holds_more_is_told() -> None:
    part = freeze("part", "0 8 * * *", 6, FreezeScope.IN)
    whole = freeze("whole", "0 9 * * *", 1)
    policy = auto(freezes=(part, whole))
    found = frozen(policy, at(9, 30))
    assert found is not None
    assert (found.window, found.scope, found.ends_s) == ("whole", FreezeScope.ALL, at(10))
    assert found.text(at(9, 30)) == 'frozen by the window "whole" until 10:00 UTC'
    later = frozen(policy, at(10))
    assert later is not None
    assert later.window == "part"


def test_the_status_tells_when_the_next_freeze_opens() -> None:
    policy = auto(freezes=(freeze("night", "0 22 * * *", 9),))
    before, inside = timetable(policy, at(12), 0.0), timetable(policy, at(23), 0.0)
    assert before is not None
    assert inside is not None
    assert (before.frozen, before.freezes_s) == (None, at(22))
    assert inside.frozen is not None
    assert (inside.frozen.ends_s, inside.freezes_s) == (at(7, day=2), None)
    assert inside.frozen.text(at(23)).endswith("until 2026-06-02 07:00 UTC")
