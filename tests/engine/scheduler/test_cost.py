"""What scheduling itself costs: it must not grow with the backlog."""

from __future__ import annotations

import statistics

import pytest

from bench.scheduling import WAITING, BusyEngine

STEPS = 25


@pytest.mark.behaviour(
    "scheduling and bookkeeping of a step cost the same with 100 and with 10,000 waiting",
    report="queues scanned or sorted every step: host time that grows with the backlog",
)
def test_a_step_costs_the_same_whatever_waits() -> None:
    """Processor time of steps taken in turns, so that a busy machine slows both alike."""
    short, long = BusyEngine(waiting=400), BusyEngine(waiting=WAITING)
    spent = [(short.timed_step(), long.timed_step()) for _ in range(STEPS)]
    for engine, least in ((short, 100), (long, WAITING - 200)):
        assert engine.scheduler.num_running == 256
        assert engine.scheduler.num_waiting > least
    few, many = (statistics.median(each) for each in zip(*spent, strict=True))
    assert many / few < 2.5
