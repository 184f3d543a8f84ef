"""What scheduling itself costs: it must not grow with the backlog."""

from __future__ import annotations

import statistics
import sys
from types import FrameType

import pytest

from bench.scheduling import WAITING, BusyEngine, PrefillingEngine, audit_beats
from paceline_engine.kvcache.idle_audit import AUDITED_A_BEAT

STEPS = 5  # of both engines, which is shorter than a time slice of the kernel
ROUNDS = 60
COUNTED = 10
MOST_S = 0.001  # of processor time, median; measured 0.4 ms
MOST_RATIO = 2.5


@pytest.mark.behaviour(
    "scheduling and bookkeeping of a step of 256 sequences cost the same with 100 and with 10,000 "
    "waiting, and no more than 1 ms",
    report="queues scanned or sorted every step: host time that grows with the backlog",
)
def test_a_step_costs_the_same_whatever_waits() -> None:
    """Processor time of steps taken in turns, in the quietest of some rounds.

    Others on the machine take caches and the other half of a core, so that the same instructions
    need more processor time; nothing makes them need less than they do alone. A round within both
    bars is therefore proof, and one beyond them is none while the machine may have been busy.
    """
    short, long = BusyEngine(waiting=400), BusyEngine(waiting=WAITING)
    rounds: list[tuple[float, float]] = []
    while len(rounds) < ROUNDS and not any(map(_is_cheap, rounds)):
        spent = [(short.timed_step(), long.timed_step()) for _ in range(STEPS)]
        few, many = (statistics.median(each) for each in zip(*spent, strict=True))
        rounds.append((few, many))
    for engine, least in ((short, 100), (long, WAITING - 200)):
        assert engine.scheduler.num_running == 256
        assert engine.scheduler.num_waiting > least
    assert any(map(_is_cheap, rounds)), rounds


def _is_cheap(spent: tuple[float, float]) -> bool:
    few, many = spent
    return many / few < MOST_RATIO and many <= MOST_S


@pytest.mark.behaviour(
    "a step calls as many functions with 10,000 waiting as with 400",
    report="own risk: a bar of time alone is missed on a busy machine, and met by chance on none",
)
def test_a_step_does_the_same_whatever_waits() -> None:
    short, long = BusyEngine(waiting=400), BusyEngine(waiting=WAITING)
    few, many = ([calls_in_a_step(engine) for _ in range(COUNTED)] for engine in (short, long))
    assert many == few


def calls_in_a_step(engine: BusyEngine | PrefillingEngine) -> int:
    """Functions called: the same on every machine."""
    count = 0

    def profile(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    former = sys.getprofile()
    sys.setprofile(profile)
    try:
        engine.timed_step()
    finally:
        sys.setprofile(former)
    return count


@pytest.mark.behaviour(
    "dividing a step between the prompts of many tenants costs by their number, not its square",
    report="own risk: with 256 tenants each pass over 256 prompts cost 65,000 tests",
)
def test_dividing_a_step_costs_by_the_number_of_tenants() -> None:
    few, many = (calls_in_a_step(PrefillingEngine(tenants)) for tenants in (64, 256))
    assert many / few < 5


def test_the_audit_is_measured_part_by_part() -> None:
    assert len(audit_beats(4 * AUDITED_A_BEAT)) == 4
