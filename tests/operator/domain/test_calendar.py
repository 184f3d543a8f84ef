"""Schedules and freeze windows of a spec: refused with one line, shown as changes."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from paceline_operator.api.status import CalendarStatus
from paceline_operator.autopilot.vocabulary.policy import policy_from_spec
from paceline_operator.autopilot.vocabulary.recurrence import Recurrence
from paceline_operator.autopilot.vocabulary.timetable import timetable
from paceline_operator.domain import calendar
from paceline_operator.domain.calendar import check, shown
from paceline_operator.domain.errors import InvalidCalendarError
from tests.support.fleet import spec

DAY = {
    "name": "day", "start": "0 8 * * 1-5", "end": "0 18 * * 1-5", "timeZone": "Europe/Berlin",
    "minReplicas": 4,
}  # fmt: skip
LAUNCH = {"name": "launch", "start": "0 9 1 6 *", "durationSeconds": 7200}


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (
            {"scaling": {"schedules": [{**DAY, "start": "0 24 * * *"}]}},
            "spec.scaling.schedules[day]: start '0 24 * * *' is no cron expression: bad hour",
        ),
        (
            {"freezeWindows": [{**LAUNCH, "timeZone": "Mars/Olympus"}]},
            "spec.freezeWindows[launch]: timeZone 'Mars/Olympus' is not known here: use a name of "
            "the IANA database such as Europe/Berlin",
        ),
    ],
)
def test_what_no_clock_understands_is_refused_in_one_line(
    written: dict[str, object], said: str
) -> None:
    with pytest.raises(InvalidCalendarError) as caught:
        check(spec(**written))
    assert str(caught.value) == said
    assert caught.value.reason == "InvalidCalendar"


def test_the_same_words_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[Recurrence] = []

    def flaw(found: Recurrence) -> None:
        looked.append(found)

    monkeypatch.setattr(calendar, "flaw", flaw)
    once = {**LAUNCH, "durationSeconds": 7201}
    for name in ("one", "two"):
        check(spec(freezeWindows=[{**once, "name": name}]))
    check(spec(freezeWindows=[{**once, "start": "1 9 1 6 *"}]))
    assert [each.start for each in looked] == ["0 9 1 6 *", "1 9 1 6 *"]


def test_the_status_shows_what_holds_and_what_comes() -> None:
    written = spec(scaling={"maxReplicas": 8, "schedules": [DAY]}, freezeWindows=[LAUNCH])
    check(written)
    monday = datetime(2026, 6, 1, 9, 30, tzinfo=UTC).timestamp()
    found = timetable(policy_from_spec(written), monday, 60.0)
    assert shown(found) == CalendarStatus(
        min_replicas=4,
        schedule="day",
        min_replicas_changes_at="2026-06-01T16:00:00Z",
        next_min_replicas=1,
        frozen_by="launch",
        frozen_until="2026-06-01T11:00:00Z",
    )


def test_without_a_calendar_the_status_has_none() -> None:
    assert shown(timetable(policy_from_spec(spec()), 0.0, 60.0)) is None
