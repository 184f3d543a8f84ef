"""Windows that come again, against the plain list of a year's times, clock changes included."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import takewhile
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim

from paceline_operator.autopilot.vocabulary.recurrence import (
    Opening,
    Recurrence,
    flaw,
    opening,
    upcoming,
)

BERLIN = "Europe/Berlin"
CHANGES = ("2026-03-08", "2026-03-29", "2026-04-04", "2026-10-03", "2026-10-25", "2026-11-01")


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def daily(start: str = "0 8 * * *", zone: str = BERLIN, **more: object) -> Recurrence:
    given = {"duration_s": 3600.0, **more}
    return Recurrence(start=start, zone=zone, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("now", "is_open"),
    [
        ("2026-06-01T07:59:59+02:00", False),
        ("2026-06-01T08:00:00+02:00", True),
        ("2026-06-01T08:59:59+02:00", True),
        ("2026-06-01T09:00:00+02:00", False),
        ("2026-06-01T08:30:00+00:00", False),
    ],
)
def test_is_open_by_the_clock_of_its_zone(now: str, is_open: bool) -> None:
    assert (opening(daily(), at(now)) is not None) is is_open


def test_ends_by_a_cron_expression_of_the_same_zone() -> None:
    work = Recurrence(start="0 8 * * 1-5", end="30 17 * * *", zone=BERLIN)
    friday = at("2026-06-05T12:00:00+02:00")
    assert opening(work, friday) == Opening(
        start_s=at("2026-06-05T08:00:00+02:00"), end_s=at("2026-06-05T17:30:00+02:00")
    )
    found = upcoming(work, friday)
    assert found is not None
    assert found.start_s == at("2026-06-08T08:00:00+02:00")


def test_openings_without_a_gap_are_one() -> None:
    halves = daily("0 8,9 * * *")
    assert opening(halves, at("2026-06-01T08:10:00+02:00")) == Opening(
        start_s=at("2026-06-01T08:00:00+02:00"), end_s=at("2026-06-01T10:00:00+02:00")
    )


def test_a_window_that_is_always_open_is_told_so_at_bounded_cost() -> None:
    always = daily("* * * * *", duration_s=120.0)
    found = opening(always, at("2026-06-01T08:10:30+02:00"))
    assert found is not None
    assert found.end_s >= at("2026-06-01T09:10:00+02:00")


def test_a_time_that_clocks_leave_out_comes_right_after() -> None:
    night = daily("30 2 * * *")
    spring = at("2026-03-29T03:00:00+02:00")
    assert opening(night, spring - 1) is None
    assert opening(night, spring) == Opening(start_s=spring, end_s=spring + 3600)


def test_a_time_that_clocks_repeat_comes_once() -> None:
    night, first = daily("30 2 * * *"), at("2026-10-25T02:30:00+02:00")
    assert opening(night, first) == Opening(start_s=first, end_s=first + 3600)
    assert opening(night, at("2026-10-25T02:15:00+01:00")) is not None
    assert opening(night, at("2026-10-25T02:45:00+01:00")) is None


def test_a_duration_is_time_that_passes_and_an_end_is_a_time_of_the_clock() -> None:
    night = at("2026-03-29T00:30:00+01:00")
    lasting = opening(daily("0 0 * * *", duration_s=6 * 3600.0), night)
    ending = opening(Recurrence(start="0 0 * * *", end="0 6 * * *", zone=BERLIN), night)
    assert lasting is not None
    assert ending is not None
    assert lasting.end_s == at("2026-03-29T07:00:00+02:00")
    assert ending.end_s == at("2026-03-29T06:00:00+02:00")


@pytest.mark.parametrize("zone", [BERLIN, "America/New_York", "Australia/Lord_Howe", "UTC"])
@pytest.mark.parametrize(
    "expression", ["30 2 * * *", "15 1-3 * * *", "0 0 * * *", "45 1 * * 0", "0 * * * *"]
)
def test_agrees_with_the_list_of_all_times_around_clock_changes(zone: str, expression: str) -> None:
    window, tz = daily(expression, zone, duration_s=1800.0), ZoneInfo(zone)
    for begin in CHANGES:
        first = at(f"{begin}T00:00:00+00:00")
        listed = CronSim(expression, datetime.fromtimestamp(first - 8 * 86400, UTC).astimezone(tz))
        last, far = first + 86400 + 43200, first + 15 * 86400
        times = list(takewhile(far.__gt__, (t.timestamp() for t in listed)))
        for now in range(int(first), int(last), 1380):
            starts = [s for s in times if s <= now < s + 1800]
            found = opening(window, now)
            assert (found.start_s if found else None) == (starts[-1] if starts else None), now
            after = upcoming(window, now)
            assert after is not None
            assert after.start_s == next(s for s in times if s > now), now


@pytest.mark.parametrize(
    ("window", "said"),
    [
        (daily("0 25 * * *"), "start '0 25 * * *' is no cron expression: bad hour"),
        (daily("0 0 31 2 *"), "start '0 0 31 2 *' is no cron expression: bad day-of-month"),
        (
            Recurrence(start="0 8 * * *", end="0 8 * * 9"),
            "end '0 8 * * 9' is no cron expression: bad day-of-week",
        ),
        (daily(zone="Europe/Berlni"), "timeZone 'Europe/Berlni' is not known here"),
        (daily(zone="Europe"), "timeZone 'Europe' is not known here"),
        (daily(zone="../etc/passwd"), "timeZone '../etc/passwd' is not known here"),
    ],
)
def test_says_what_is_wrong(window: Recurrence, said: str) -> None:
    found = flaw(window)
    assert found is not None
    assert found.startswith(said)


def test_finds_nothing_wrong_with_what_is_right() -> None:
    assert flaw(daily("*/15 6-22 * JAN-MAR MON-FRI")) is None
