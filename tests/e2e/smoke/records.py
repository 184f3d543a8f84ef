"""Requests for tests."""

from e2e.load.record import Outcome, Record


def request(
    sent_s: float, ended_s: float, outcome: Outcome = Outcome.OK, number: int = 1
) -> Record:
    return Record(
        id=number,
        phase="steady",
        kind="chat",
        streamed=True,
        scheduled_s=sent_s,
        sent_s=sent_s,
        ended_s=ended_s,
        ttft_ms=None,
        gaps_ms=(),
        prompt_tokens=1,
        tokens=0,
        status=None,
        outcome=outcome,
        error="reset" if outcome is Outcome.LOST else None,
    )


def steady(from_s: int, to_s: int) -> list[Record]:
    """One request a second, each answered in a second and a half."""
    return [request(at_s, at_s + 1.5, number=at_s) for at_s in range(from_s, to_s)]
