from __future__ import annotations

from paceline_engine.server.drain import Drain, DrainPhase


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_phases_follow_the_grace() -> None:
    clock = Clock()
    drain = Drain(clock, grace_s=5)
    assert (drain.phase, drain.active, drain.grace_left_s) == (DrainPhase.NONE, False, 0)
    drain.begin()
    clock.now_s = 4.9
    assert (drain.phase, drain.active) == (DrainPhase.ANNOUNCED, True)
    drain.begin()  # a repeated call does not start anew
    clock.now_s = 5
    assert drain.phase is DrainPhase.REFUSING
    assert drain.undo()
    assert drain.phase is DrainPhase.NONE


def test_a_terminal_drain_stays() -> None:
    clock = Clock()
    drain = Drain(clock, grace_s=5)
    drain.begin()
    clock.now_s = 3
    drain.begin(terminal=True)
    assert drain.grace_left_s == 2
    assert not drain.undo()
    assert drain.active


def test_the_grace_can_be_skipped() -> None:
    drain = Drain(Clock(), grace_s=5)
    drain.skip_grace()
    assert drain.phase is DrainPhase.NONE
    drain.begin()
    drain.skip_grace()
    assert drain.phase is DrainPhase.REFUSING
