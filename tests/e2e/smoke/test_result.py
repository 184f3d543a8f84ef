"""The verdict of a smoke run."""

from e2e.load.record import Outcome
from e2e.smoke.losses import EngineKill, Fault
from e2e.smoke.result import SHOWN, judge
from tests.e2e.smoke.records import request, steady

KILL = EngineKill(read_at_s=99.8, at_s=100.0, dead_s=100.05, held=1)
FAULTS = [Fault("engine", 100.0, 110.0)]


def test_a_loss_on_the_killed_engine_is_ok_and_counted() -> None:
    result = judge([*steady(90, 120), request(99.0, 100.1, Outcome.LOST, 7)], KILL, FAULTS)
    assert result.ok
    assert result.line == "smoke: ok requests=31 lost=0 lost_on_killed_engine=1"
    assert result.reasons == ()


def test_any_other_loss_is_short_and_named() -> None:
    result = judge([*steady(90, 120), request(105.0, 105.1, Outcome.LOST, 7)], KILL, FAULTS)
    assert not result.ok
    assert result.line == "smoke: short requests=31 lost=1 lost_on_killed_engine=0"
    assert result.reasons == ("lost: request 7 at 105.0: reset",)


def test_no_requests_are_short() -> None:
    assert not judge([], KILL, []).ok
    assert judge([], KILL, []).line.startswith("smoke: short requests=0")


def test_a_silent_fault_is_short_although_nothing_was_lost() -> None:
    result = judge(steady(90, 105), KILL, FAULTS)
    assert not result.ok
    assert "engine: the load had ended before it was over" in result.reasons


def test_many_losses_do_not_flood_the_screen() -> None:
    lost = [request(95.0, 96.0, Outcome.LOST, number) for number in range(SHOWN * 3)]
    result = judge(lost, KILL, [])
    assert len(result.reasons) == SHOWN
    assert f"lost={SHOWN * 3} " in result.line
