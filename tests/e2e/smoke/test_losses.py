"""Only what a killed engine held may be lost, and load must have flowed while things were dead."""

import pytest

from e2e.load.record import Outcome, Record
from e2e.smoke.losses import SILENCE_S, EngineKill, Fault, explain, silences
from tests.e2e.smoke.records import request, steady

KILL_S = 100.0
DEAD_S = 100.05


def killed(held: int) -> EngineKill:
    return EngineKill(read_at_s=KILL_S - 0.2, at_s=KILL_S, dead_s=DEAD_S, held=held)


KILL = killed(2)
FAULT = Fault("API server", 100.0, 130.0)


@pytest.mark.parametrize(
    ("sent_s", "ended_s", "explained"),
    [
        (99.0, 100.01, True),
        (99.0, 101.9, True),
        (100.04, 100.06, True),
        (99.0, 99.5, False),
        (100.5, 100.6, False),
        (99.0, 110.0, False),
    ],
)
def test_a_loss_is_explained_by_the_kill_only_if_it_was_in_flight(
    sent_s: float, ended_s: float, *, explained: bool
) -> None:
    losses = explain([request(sent_s, ended_s, Outcome.LOST)], KILL)
    assert (len(losses.on_killed), len(losses.unexplained)) == ((1, 0) if explained else (0, 1))


@pytest.mark.parametrize(
    ("held", "lost", "sent_between", "excused"),
    [(2, 2, 0, 2), (2, 3, 0, 2), (0, 1, 0, 0), (0, 1, 1, 1), (2, 5, 1, 3), (9, 5, 0, 5)],
)
def test_an_engine_takes_no_more_with_it_than_it_held(
    held: int, lost: int, sent_between: int, excused: int
) -> None:
    old = [request(99.0, 100.1, Outcome.LOST, number) for number in range(lost - sent_between)]
    new = [request(99.9, 100.1, Outcome.LOST, 50 + number) for number in range(sent_between)]
    losses = explain([*old, *new], killed(held))
    assert len(losses.on_killed) == excused
    assert len(losses.unexplained) == lost - excused


def test_full_replies_and_deliberate_refusals_are_no_losses() -> None:
    records = [request(99.0, 100.5, outcome) for outcome in (Outcome.OK, Outcome.REFUSED)]
    losses = explain(records, KILL)
    assert losses.on_killed == losses.unexplained == ()


def test_a_cancelled_request_is_a_loss() -> None:
    assert explain([request(5.0, 6.0, Outcome.CANCELLED)], KILL).unexplained


def test_a_steady_load_across_a_fault_is_heard() -> None:
    assert silences(steady(90, 140), [FAULT]) == []


@pytest.mark.parametrize(
    ("records", "problem"),
    [
        ([], "no request sent for 30.0 s"),
        (steady(90, 110), "no request sent for 21.0 s"),
        (steady(120, 140), "no request sent for 20.0 s"),
        (steady(90, 131), "the load had ended before it was over"),
        (
            [request(r.sent_s, 300.0) for r in steady(90, 140)],
            "no reply ended for 30.0 s",
        ),
        (
            [request(r.sent_s, r.ended_s, Outcome.REFUSED) for r in steady(90, 140)],
            "no reply ended for 30.0 s",
        ),
    ],
    ids=["none", "ended early", "began late", "ended with it", "all hang", "all refused"],
)
def test_a_fault_without_load_proves_nothing(records: list[Record], problem: str) -> None:
    assert f"API server: {problem}" in silences(records, [FAULT])


def test_a_short_silence_is_chance() -> None:
    records = [r for r in steady(90, 140) if not 110 < r.sent_s < 110 + SILENCE_S]
    assert silences(records, [FAULT]) == []
