"""What came of one request, and its form as one JSON line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any


class Outcome(StrEnum):
    """How a request ended.

    `REFUSED` is a deliberate 429 with `Retry-After`. `CANCELLED` was in flight when the
    generator itself was told to stop. `LOST` is everything else but a full reply.
    """

    OK = "ok"
    REFUSED = "refused"
    LOST = "lost"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One request. Times `…_s` are Unix seconds, so that records align with other logs.

    Attributes:
        id: Position in the plan.
        phase: What the load did at that time.
        kind: What sort of request it was.
        streamed: Whether the answer came token by token.
        scheduled_s: When it was due.
        sent_s: When it was sent; `ttft_ms` counts from here, connecting included.
        ended_s: When its last byte came, or it failed.
        ttft_ms: To the first text of the answer; None where none came or it was whole.
        gaps_ms: Between arrivals of text (ITL); texts that came together are one arrival.
        prompt_tokens: As the server counted, else as planned.
        tokens: Output tokens as the server counted, else texts seen.
        status: HTTP status, None without an answer.
        outcome: How it ended.
        error: Why it was not a full reply, one line.
    """

    id: int
    phase: str
    kind: str
    streamed: bool
    scheduled_s: float
    sent_s: float
    ended_s: float
    ttft_ms: float | None
    gaps_ms: tuple[float, ...]
    prompt_tokens: int
    tokens: int
    status: int | None
    outcome: Outcome
    error: str | None = None

    def gaps_at(self) -> Iterator[tuple[float, float]]:
        """(Unix time at which the gap ended, its milliseconds), in order."""
        if self.ttft_ms is None:
            return
        at_s = self.sent_s + self.ttft_ms / 1e3
        for gap_ms in self.gaps_ms:
            at_s += gap_ms / 1e3
            yield at_s, gap_ms

    def texts_at(self) -> Iterator[float]:
        """Unix time of each text of the answer."""
        if self.ttft_ms is not None:
            yield self.sent_s + self.ttft_ms / 1e3
        for at_s, _ in self.gaps_at():
            yield at_s


def to_line(record: Record) -> str:
    """One line of JSON, gaps to a hundredth of a millisecond."""
    rounded = replace(
        record,
        scheduled_s=round(record.scheduled_s, 4),
        sent_s=round(record.sent_s, 4),
        ended_s=round(record.ended_s, 4),
        ttft_ms=None if record.ttft_ms is None else round(record.ttft_ms, 2),
        gaps_ms=tuple(round(gap, 2) for gap in record.gaps_ms),
    )
    return json.dumps(asdict(rounded), separators=(",", ":"))


def from_fields(fields: dict[str, Any]) -> Record:
    """The record of a parsed line."""
    known = {**fields, "gaps_ms": tuple(fields["gaps_ms"]), "outcome": Outcome(fields["outcome"])}
    return Record(**known)


def read_records(lines: Iterable[str]) -> list[Record]:
    """Records in the output of a run, by time sent; its other lines are passed over."""
    parsed = (json.loads(line) for line in lines if line.startswith('{"id":'))
    return sorted(map(from_fields, parsed), key=lambda record: record.sent_s)
