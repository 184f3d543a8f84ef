"""Only what was in flight on a killed engine may be lost."""

import pytest

from e2e.load.record import Outcome, Record
from e2e.smoke.losses import explain

KILL_S = 100.0


def request(sent_s: float, ended_s: float, outcome: Outcome) -> Record:
    return Record(
        id=1,
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
    )


@pytest.mark.parametrize(
    ("sent_s", "ended_s", "explained"),
    [
        (99.0, 100.01, True),
        (99.0, 101.9, True),
        (99.0, 99.5, False),
        (100.5, 100.6, False),
        (99.0, 110.0, False),
    ],
)
def test_a_loss_is_explained_by_the_kill_only_if_it_was_in_flight(
    sent_s: float, ended_s: float, *, explained: bool
) -> None:
    losses = explain([request(sent_s, ended_s, Outcome.LOST)], KILL_S)
    assert (len(losses.on_killed), len(losses.unexplained)) == ((1, 0) if explained else (0, 1))


def test_full_replies_and_deliberate_refusals_are_no_losses() -> None:
    records = [request(99.0, 100.5, outcome) for outcome in (Outcome.OK, Outcome.REFUSED)]
    losses = explain(records, KILL_S)
    assert losses.on_killed == losses.unexplained == ()


def test_a_cancelled_request_is_a_loss() -> None:
    assert explain([request(5.0, 6.0, Outcome.CANCELLED)], KILL_S).unexplained
