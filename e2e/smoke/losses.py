"""Which requests were lost, and which of these an engine's death explains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from e2e.load.record import Outcome, Record

NOTICE_S = 2.0
"""A client learns of the death when the proxy does: connections are reset at once."""


@dataclass(frozen=True, slots=True)
class Losses:
    """Requests that got anything but a full reply or a deliberate 429.

    Attributes:
        on_killed: In flight when the engine was killed, and ended by that.
        unexplained: All others.
    """

    on_killed: tuple[Record, ...]
    unexplained: tuple[Record, ...]


def explain(records: Sequence[Record], killed_at_s: float) -> Losses:
    """Splits the lost requests.

    Args:
        records: Everything the load generator sent.
        killed_at_s: Unix time of the kill.
    """
    lost = [record for record in records if record.outcome not in (Outcome.OK, Outcome.REFUSED)]
    on_killed = tuple(record for record in lost if _in_flight(record, killed_at_s))
    rest = tuple(record for record in lost if not _in_flight(record, killed_at_s))
    return Losses(on_killed, rest)


def _in_flight(record: Record, killed_at_s: float) -> bool:
    sent_before = record.sent_s <= killed_at_s
    return sent_before and killed_at_s <= record.ended_s <= killed_at_s + NOTICE_S
