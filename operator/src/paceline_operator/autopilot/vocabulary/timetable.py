"""What the calendar says: minimums raised for a time, and times in which moves are held."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite

from paceline_operator.api.choice import FreezeScope
from paceline_operator.autopilot.vocabulary import phrases
from paceline_operator.autopilot.vocabulary.policy import Freeze, Policy, Schedule
from paceline_operator.autopilot.vocabulary.recurrence import Opening, opening, upcoming

LONGEST_LOOK = 32
"""Ends and beginnings looked through for the next change of the minimum."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """A minimum that a schedule asks for.

    Attributes:
        replicas: Fewest replicas.
        schedule: Its name.
        opens_s: When it begins; later than now while replicas are ordered ahead.
        ends_s: When it ends, infinite where it does not.
    """

    replicas: int
    schedule: str
    opens_s: float
    ends_s: float

    @property
    def ends(self) -> float | None:
        """When it ends, None where it does not."""
        return self.ends_s if isfinite(self.ends_s) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Frozen:
    """A freeze window that is open.

    Attributes:
        window: Its name.
        scope: What it holds.
        ends_s: When it ends, infinite where it does not.
    """

    window: str
    scope: FreezeScope
    ends_s: float

    def text(self, now_s: float) -> str:
        """`frozen by the window "launch" until 12:00 UTC`."""
        when = f" until {phrases.clock(self.ends_s, now_s)}" if isfinite(self.ends_s) else ""
        return f'frozen by the window "{self.window}"{when}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Timetable:
    """The calendar as the status shows it.

    Attributes:
        floor: Scheduled minimum in force, or ordered ahead.
        min_replicas: Fewest replicas now.
        changes_s: When that changes next, None where nothing is due.
        next_min_replicas: Fewest replicas from then on.
        frozen: Freeze window that is open.
        freezes_s: When the next one opens, None where one is open or none comes.
    """

    min_replicas: int
    floor: Floor | None = None
    changes_s: float | None = None
    next_min_replicas: int | None = None
    frozen: Frozen | None = None
    freezes_s: float | None = None


def floor(policy: Policy, now_s: float, ahead_s: float = 0.0) -> Floor | None:
    """The highest scheduled minimum that is in force, or begins within `ahead_s`."""
    found = [
        Floor(
            replicas=schedule.min_replicas,
            schedule=schedule.name,
            opens_s=each.start_s,
            ends_s=each.end_s,
        )
        for schedule in policy.schedules
        for each in _near(schedule, now_s, ahead_s)
    ]
    return max(found, key=lambda each: (each.replicas, -each.opens_s), default=None)


def _near(schedule: Schedule, now_s: float, ahead_s: float) -> Iterable[Opening]:
    now = opening(schedule.recurrence, now_s)
    if now is not None:
        yield now
    coming = upcoming(schedule.recurrence, now_s) if ahead_s > 0 else None
    if coming is not None and coming.start_s <= now_s + ahead_s:
        yield coming


def frozen(policy: Policy, now_s: float) -> Frozen | None:
    """The freeze window that is open; of several the one that holds more, for longer."""
    found = [
        Frozen(window=freeze.name, scope=freeze.scope, ends_s=each.end_s)
        for freeze in policy.freezes
        if (each := opening(freeze.recurrence, now_s)) is not None
    ]
    return max(found, key=lambda each: (each.scope is FreezeScope.ALL, each.ends_s), default=None)


def timetable(policy: Policy, now_s: float, ahead_s: float) -> Timetable | None:
    """The calendar now, None where the policy has none."""
    if not policy.schedules and not policy.freezes:
        return None
    least = _least(policy, now_s)
    changes_s, following = _next_change(policy, now_s, least)
    held = frozen(policy, now_s)
    openings = () if held is not None else policy.freezes
    return Timetable(
        min_replicas=least,
        floor=floor(policy, now_s, ahead_s),
        changes_s=changes_s,
        next_min_replicas=following,
        frozen=held,
        freezes_s=min(_starts(openings, now_s), default=None),
    )


def _least(policy: Policy, now_s: float) -> int:
    """Fewest replicas at a time, nothing ordered ahead."""
    scheduled = floor(policy, now_s)
    least = max(1, policy.min_replicas, 0 if scheduled is None else scheduled.replicas)
    return least if policy.max_replicas is None else min(least, policy.max_replicas)


def _next_change(policy: Policy, now_s: float, least: int) -> tuple[float | None, int | None]:
    at_s = now_s
    for _ in range(LONGEST_LOOK):
        turns = [*_starts(policy.schedules, at_s), *_ends(policy.schedules, at_s)]
        at_s = min(turns, default=float("inf"))
        if at_s == float("inf"):
            return None, None
        following = _least(policy, at_s)
        if following != least:
            return at_s, following
    return None, None


def _starts(windows: Iterable[Schedule | Freeze], now_s: float) -> Iterable[float]:
    for each in windows:
        found = upcoming(each.recurrence, now_s)
        if found is not None:
            yield found.start_s


def _ends(windows: Iterable[Schedule], now_s: float) -> Iterable[float]:
    for each in windows:
        found = opening(each.recurrence, now_s)
        if found is not None:
            yield found.end_s
