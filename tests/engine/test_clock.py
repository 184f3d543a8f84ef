"""The machine's clock."""

from __future__ import annotations

from paceline_engine.clock import MonotonicClock


def test_sleeping_reaches_the_deadline() -> None:
    clock = MonotonicClock()
    deadline = clock.now() + 0.01
    clock.sleep_until(deadline)
    assert clock.now() >= deadline


def test_a_passed_deadline_returns_at_once() -> None:
    clock = MonotonicClock()
    before = clock.now()
    clock.sleep_until(before - 3600)
    assert clock.now() - before < 60
