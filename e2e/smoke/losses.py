"""Which requests were lost, which of these an engine's death explains, and whether load flowed.

Pure: records in, findings out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from e2e.load.record import Outcome, Record

NOTICE_S = 2.0
"""A client learns of the death when the proxy does: connections are reset at once."""
SILENCE_S = 5.0
"""Longest time without a request or a reply that a steady load of 2.5 a second may show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineKill:
    """When and where an engine was killed, and what it held then.

    Attributes:
        read_at_s: Unix time just before its own count of requests was read.
        at_s: Unix time just before its processes were killed.
        dead_s: Unix time just after.
        held: Requests that it counted as running or waiting.
        pod_ip: Where it was.
    """

    read_at_s: float
    at_s: float
    dead_s: float
    held: int
    pod_ip: str = ""


@dataclass(frozen=True, slots=True)
class Fault:
    """A stretch of Unix time in which something was dead."""

    name: str
    from_s: float
    to_s: float


@dataclass(frozen=True, slots=True)
class Losses:
    """Requests that got anything but a full reply or a deliberate 429.

    Attributes:
        on_killed: In flight when the engine was killed, and ended by that.
        unexplained: All others.
    """

    on_killed: tuple[Record, ...]
    unexplained: tuple[Record, ...]


def explain(records: Sequence[Record], kill: EngineKill) -> Losses:
    """Splits the lost requests.

    An engine's death can end no more requests than the engine held: those it counted just
    before, and those sent between the count and the kill. What exceeds that is unexplained.

    Args:
        records: Everything the load generator sent.
        kill: What was killed, and when.
    """
    lost = [record for record in records if record.outcome not in (Outcome.OK, Outcome.REFUSED)]
    in_flight = [record for record in lost if _in_flight(record, kill)]
    others = [record for record in lost if not _in_flight(record, kill)]
    late = sum(kill.read_at_s <= record.sent_s <= kill.dead_s for record in records)
    most = kill.held + late
    return Losses(tuple(in_flight[:most]), (*in_flight[most:], *others))


def silences(records: Sequence[Record], faults: Sequence[Fault]) -> list[str]:
    """Where load did not flow across a fault, in words: a fault without load proves nothing.

    Requests must have been sent, and full replies have ended, all through it, and be sent
    after it.
    """
    replies = [record.ended_s for record in records if record.outcome is Outcome.OK]
    sent = [record.sent_s for record in records]
    found = []
    for fault in faults:
        for what, times in (("request sent", sent), ("reply ended", replies)):
            gap_s = _longest_gap(times, fault)
            if gap_s > SILENCE_S:
                found.append(f"{fault.name}: no {what} for {gap_s:.1f} s")
        if not any(at_s > fault.to_s for at_s in sent):
            found.append(f"{fault.name}: the load had ended before it was over")
    return found


def _longest_gap(times: Iterable[float], fault: Fault) -> float:
    within = sorted(at_s for at_s in times if fault.from_s <= at_s <= fault.to_s)
    marks = [fault.from_s, *within, fault.to_s]
    return max(later - earlier for earlier, later in pairwise(marks))


def _in_flight(record: Record, kill: EngineKill) -> bool:
    sent_before = record.sent_s <= kill.dead_s
    return sent_before and kill.at_s <= record.ended_s <= kill.dead_s + NOTICE_S
