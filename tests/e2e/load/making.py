"""Records made by hand."""

from __future__ import annotations

from e2e.load.record import Outcome, Record


def record(
    sent_s: float = 0.0,
    ttft_ms: float | None = 100.0,
    *gaps_ms: float,
    outcome: Outcome = Outcome.OK,
    waited_s: float = 1.0,
    phase: str = "steady",
    streamed: bool = True,
    number: int = 0,
) -> Record:
    return Record(
        id=number,
        phase=phase,
        kind="chat",
        streamed=streamed,
        scheduled_s=sent_s,
        sent_s=sent_s,
        ended_s=sent_s + waited_s,
        ttft_ms=ttft_ms,
        gaps_ms=gaps_ms,
        prompt_tokens=10,
        tokens=1 + len(gaps_ms),
        status=200,
        outcome=outcome,
        error=None if outcome is Outcome.OK else "why",
    )
