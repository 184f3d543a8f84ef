"""When a window that comes again is open: cron expressions by the clock of a time zone.

Pure: the time is an argument, and the zones' rules are data. A time that a change of clocks
leaves out comes right after it, one that it repeats comes once, as Debian's cron has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from math import isfinite
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

MINUTE_S = 60
LONGEST_CHAIN = 64
"""Openings that follow each other without a gap are told as one, up to so many."""
SET_BACK_S = 3 * 3600
"""Longer than clocks are ever set back."""
_PROBE_S = 1_767_225_600


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurrence:
    """A window by its expressions; one of `end` and `duration_s` says when it ends.

    Attributes:
        start: Cron expression of its beginning.
        end: Cron expression of its end.
        duration_s: Time it lasts.
        zone: IANA name of the time zone.
    """

    start: str
    end: str | None = None
    duration_s: float | None = None
    zone: str = "UTC"


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """One time the window is open, [start_s, end_s) on the operator's clock."""

    start_s: float
    end_s: float


def flaw(recurrence: Recurrence) -> str | None:
    """What is wrong with a window that nothing but its meaning can tell; None where it is fine."""
    try:
        zone = _zone(recurrence.zone)
    except (KeyError, ValueError, OSError):
        return (
            f"timeZone {recurrence.zone!r} is not known here: use a name of the IANA database "
            "such as Europe/Berlin"
        )
    for field, text in (("start", recurrence.start), ("end", recurrence.end)):
        try:
            if text is not None:
                next(CronSim(text, datetime.fromtimestamp(_PROBE_S, zone)))
        except CronSimError as error:
            return f"{field} {text!r} is no cron expression: {str(error).lower()}"
        except StopIteration:
            return f"{field} {text!r} never comes"
    return None


def opening(recurrence: Recurrence, now_s: float) -> Opening | None:
    """The opening that holds now, joined with those that follow it without a gap."""
    start_s = _before(recurrence.start, recurrence.zone, int(now_s // MINUTE_S))
    if start_s is None:
        return None
    end_s = _end_s(recurrence, start_s)
    return Opening(start_s=start_s, end_s=_chained(recurrence, end_s)) if end_s > now_s else None


def upcoming(recurrence: Recurrence, now_s: float) -> Opening | None:
    """The first opening after now."""
    start_s = _after(recurrence.start, recurrence.zone, int(now_s // MINUTE_S))
    if start_s is None:
        return None
    return Opening(start_s=start_s, end_s=_chained(recurrence, _end_s(recurrence, start_s)))


def _chained(recurrence: Recurrence, end_s: float) -> float:
    for _ in range(LONGEST_CHAIN if isfinite(end_s) else 0):
        # The last start up to the end: an opening that begins with it has no gap before it.
        last_s = _before(recurrence.start, recurrence.zone, int(end_s // MINUTE_S))
        later_s = end_s if last_s is None else _end_s(recurrence, last_s)
        if later_s <= end_s:
            return end_s
        end_s = later_s
    return end_s


def _end_s(recurrence: Recurrence, start_s: float) -> float:
    if recurrence.end is None:
        return start_s + (recurrence.duration_s or 0.0)
    found = _after(recurrence.end, recurrence.zone, int(start_s // MINUTE_S))
    return float("inf") if found is None else found


@lru_cache(maxsize=256)
def _zone(name: str) -> tzinfo:
    return UTC if name == "UTC" else ZoneInfo(name)


@lru_cache(maxsize=8192)
def _after(expression: str, zone: str, minute: int) -> float | None:
    """First time later than the beginning of a minute since the epoch."""
    now_s = minute * MINUTE_S
    times = CronSim(expression, datetime.fromtimestamp(now_s, _zone(zone)))
    # In an hour that comes twice, the first answers may be of its first run.
    return next((s for s in (each.timestamp() for each in times) if s > now_s), None)


@lru_cache(maxsize=8192)
def _before(expression: str, zone: str, minute: int) -> float | None:
    """Last time up to the beginning of a minute since the epoch."""
    now_s = minute * MINUTE_S
    # Clocks that were just set back have shown later times than now, which have been.
    back_s = max(0.0, _offset_s(zone, now_s - SET_BACK_S) - _offset_s(zone, now_s))
    start = datetime.fromtimestamp(now_s + back_s + MINUTE_S - 1, _zone(zone))
    times = CronSim(expression, start, reverse=True)
    return next((s for s in (each.timestamp() for each in times) if s <= now_s), None)


def _offset_s(zone: str, time_s: float) -> float:
    offset = datetime.fromtimestamp(time_s, _zone(zone)).utcoffset()
    return offset.total_seconds() if offset is not None else 0.0
