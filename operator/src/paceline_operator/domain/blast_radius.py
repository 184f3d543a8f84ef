"""How much the autopilot may change over all services in a minute: what a runaway is held by.

Exact over any 60 s, and not only on average as a bucket that refills would be: each change is
remembered for a minute. What people order (manual values, limits, schedules) is not counted and
not held. Moves that can wait, of live knobs and inwards, may use half of each limit: the rest is
kept for replicas that demand asks for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

from paceline_operator.autopilot.situation.restraint import ORDERED
from paceline_operator.autopilot.vocabulary.decision import Decision, Knob, Tick
from paceline_operator.autopilot.vocabulary.fleet import Allowance

WINDOW_S = 60.0
PATIENT_SHARE = 0.5
STORED_DIGITS = 1
KEY = "changes"
"""Key in a status' memory: what was changed in the last minute, for the next process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Most that may change in any 60 s; by default far more than a healthy installation asks for.

    Attributes:
        services: Services of which a knob or the replica count changes.
        replicas: Replicas added and given back, together.
    """

    services: int = 120
    replicas: int = 240


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One move that was decided: of which service, and of how many replicas (0: live knobs).

    Attributes:
        time_s: When it counts from.
        service: Whose it is.
        replicas: How many are added or given back.
        stored_s: Its time as a status has it, where a clock that was ahead wrote a later one.
    """

    time_s: float
    service: tuple[str, str]
    replicas: int = 0
    stored_s: float | None = None

    @property
    def identity(self) -> tuple[float, tuple[str, str], int]:
        """The same of a change and of what any status, read at any time, remembers of it."""
        written_s = self.time_s if self.stored_s is None else self.stored_s
        return round(written_s, STORED_DIGITS), self.service, self.replicas


def recent(changes: Iterable[Change], now_s: float) -> tuple[Change, ...]:
    """Those that still count."""
    return tuple(each for each in changes if each.time_s > now_s - WINDOW_S)


def allowance(
    limits: Limits, changes: Iterable[Change], service: tuple[str, str], now_s: float
) -> Allowance:
    """What one service may change now.

    Args:
        limits: Of the installation.
        changes: Of all services, those of the last minute at least.
        service: The one that asks.
        now_s: Operator's clock.
    """
    counted = recent(changes, now_s)
    left = _left(limits, counted, service)
    return replace(left, until_s=_until_s(limits, counted, service, left))


def _left(limits: Limits, counted: tuple[Change, ...], service: tuple[str, str]) -> Allowance:
    others = {each.service for each in counted} - {service}
    used = sum(each.replicas for each in counted)
    patient = _patient(limits)
    may_move, may_wait = len(others) < limits.services, len(others) < patient.services
    return Allowance(
        knobs=may_wait,
        out=max(0, limits.replicas - used) if may_move else 0,
        inward=max(0, patient.replicas - used) if may_wait else 0,
    )


def _until_s(
    limits: Limits, counted: tuple[Change, ...], service: tuple[str, str], now: Allowance
) -> float | None:
    """From when on more is possible, if nothing changes meanwhile; None where nothing is used.

    Where no replica is left it is about these, else about what can wait and is held.
    """
    ends_s = sorted({each.time_s + WINDOW_S for each in counted})
    for at_s in ends_s:
        kept = tuple(each for each in counted if each.time_s + WINDOW_S > at_s)
        if _is_more(now, _left(limits, kept, service)):
            return at_s
    return ends_s[-1] if ends_s else None


def _is_more(now: Allowance, then: Allowance) -> bool:
    if not now.out:
        return bool(then.out)
    if not (now.knobs and now.inward):
        return then.knobs and bool(then.inward)
    return (then.out or 0) > now.out


def _patient(limits: Limits) -> Limits:
    """What moves that can wait may use, one of each at least."""
    return Limits(
        services=max(1, int(PATIENT_SHARE * limits.services)),
        replicas=max(1, int(PATIENT_SHARE * limits.replicas)),
    )


def made(tick: Tick | None, service: tuple[str, str], now_s: float) -> tuple[Change, ...]:
    """What a tick changes, as far as it counts."""
    if tick is None:
        return ()
    own = (each for each in tick.decisions if each.applied and each.reason not in ORDERED)
    return tuple(Change(time_s=now_s, service=service, replicas=_size(each)) for each in own)


def _size(decision: Decision) -> int:
    if decision.knob is not Knob.REPLICAS:
        return 0
    return abs((decision.after or 0) - (decision.before or 0))


def joined(changes: tuple[Change, ...], stored: Iterable[Change]) -> tuple[Change, ...]:
    """With those that are not known yet."""
    known = {each.identity for each in changes}
    return (*changes, *(each for each in stored if each.identity not in known))


def dump(changes: Iterable[Change], service: tuple[str, str]) -> list[list[float]]:
    """One service's changes as JSON values."""
    own = (each.identity for each in changes if each.service == service)
    return [[stored_s, replicas] for stored_s, _, replicas in own]


def load(
    stored: Mapping[str, Any] | None, service: tuple[str, str], now_s: float
) -> tuple[Change, ...]:
    """The changes a status remembers; none where they cannot be read.

    Args:
        stored: The status' memory.
        service: Whose status it is.
        now_s: Now: later ones, as a clock that was ahead has left them, count from now on.
    """
    try:
        return tuple(
            _loaded(float(time_s), int(replicas), service, now_s)
            for time_s, replicas in (stored or {}).get(KEY) or ()
        )
    except (AttributeError, TypeError, ValueError, OverflowError):
        return ()


def _loaded(stored_s: float, replicas: int, service: tuple[str, str], now_s: float) -> Change:
    if not isfinite(stored_s):
        raise ValueError(f"a change at {stored_s}")
    if stored_s <= now_s:
        return Change(time_s=stored_s, service=service, replicas=replicas)
    return Change(time_s=now_s, service=service, replicas=replicas, stored_s=stored_s)
