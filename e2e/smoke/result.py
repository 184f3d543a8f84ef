"""What a smoke run showed, as its last lines say it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from e2e.load.record import Record
from e2e.smoke.losses import EngineKill, Fault, explain, silences

SHOWN = 10


@dataclass(frozen=True, slots=True)
class Result:
    """The verdict.

    Attributes:
        ok: Whether nothing was lost that should not be, while load flowed.
        line: The verdict in one line, its figures included.
        reasons: What stands against it, one line each.
    """

    ok: bool
    line: str
    reasons: tuple[str, ...]


def judge(records: Sequence[Record], kill: EngineKill, faults: Sequence[Fault]) -> Result:
    """Reads the verdict off a run.

    Args:
        records: Everything the load generator sent.
        kill: The engine that was killed.
        faults: When what was dead.
    """
    losses = explain(records, kill)
    lost = [
        f"lost: request {record.id} at {record.sent_s:.1f}: {record.error}"
        for record in losses.unexplained
    ]
    reasons = (*silences(records, faults), *lost[:SHOWN])
    ok = bool(records) and not reasons
    line = (
        f"smoke: {'ok' if ok else 'short'} requests={len(records)} "
        f"lost={len(losses.unexplained)} lost_on_killed_engine={len(losses.on_killed)}"
    )
    return Result(ok, line, reasons)
