"""Surges that were over before a replica could serve, and what is learned of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline_operator.autopilot.demand.forecast import Demand
from paceline_operator.autopilot.measurement.error_budget import BUCKET_S, HOUR_S
from paceline_operator.autopilot.replicas.bursts import (
    LONGER,
    REMEMBERED_S,
    TOLD_S,
    WAITED_SHARE,
    confirmed_at_s,
    noted,
)
from paceline_operator.autopilot.situation.situation import Situation, understand
from paceline_operator.autopilot.vocabulary.memory import Bursts, Memory, Misses
from paceline_operator.autopilot.vocabulary.window import slo_key
from tests.operator.autopilot.build import TTFT, auto, fleet

COLD_S = 120.0
BEGIN_S = 1000.0


def at(now_s: float, memory: Memory, *, surging: bool = False) -> Situation:
    s = understand(auto(), fleet(pods=4, now_s=now_s, desired_replicas=4), memory, now_s)
    return replace(s, demand=Demand(surging=surging), cold_start_s=COLD_S)


def played(memory: Memory, *looks: tuple[float, bool, int]) -> Memory:
    """Looks at (time, whether it surges, replicas that are needed)."""
    for now_s, surging, wanted in looks:
        memory = noted(at(now_s, memory, surging=surging), wanted)
    return memory


SHORT = ((BEGIN_S, True, 9), (BEGIN_S + 15, True, 8), (BEGIN_S + 35, False, 4))


def test_the_first_surge_is_answered_at_once() -> None:
    memory = played(Memory(), SHORT[0])
    assert memory.bursts == Bursts(began_at_s=BEGIN_S, since_s=BEGIN_S, before=4)
    assert confirmed_at_s(at(BEGIN_S, memory)) is None


def test_one_that_was_over_before_a_replica_could_serve_is_remembered() -> None:
    memory = played(Memory(), *SHORT)
    assert memory.bursts == Bursts(began_at_s=BEGIN_S, lasted_s=35.0, lasted_at_s=BEGIN_S + 35)


def test_the_next_one_is_answered_when_it_lasts_longer() -> None:
    memory = played(Memory(), *SHORT, (2000.0, True, 9))
    due_s = 2000.0 + LONGER * 35.0
    assert confirmed_at_s(at(2000.0, memory)) == due_s
    assert confirmed_at_s(at(due_s - 0.1, memory)) == due_s
    assert confirmed_at_s(at(due_s, memory)) is None


def test_the_longest_is_what_counts_and_it_is_forgotten() -> None:
    memory = played(Memory(), *SHORT, (2000.0, True, 9), (2010.0, False, 4))
    assert memory.bursts == Bursts(began_at_s=2000.0, lasted_s=35.0, lasted_at_s=2010.0)
    late_s = 2010.0 + REMEMBERED_S
    again = played(memory, (late_s, True, 9))
    assert confirmed_at_s(at(late_s, again)) is None


def test_one_that_outlasts_a_cold_start_was_worth_its_replicas() -> None:
    looks = ((BEGIN_S, True, 9), (BEGIN_S + COLD_S, False, 9), (BEGIN_S + 200, False, 4))
    assert played(Memory(), *looks).bursts == Bursts(began_at_s=BEGIN_S)


def test_one_that_costs_too_much_to_wait_for_is_none_that_is_known() -> None:
    long_s = WAITED_SHARE * COLD_S + 5
    looks = ((BEGIN_S, True, 9), (BEGIN_S + long_s, False, 4))
    assert played(Memory(), *looks).bursts == Bursts(began_at_s=BEGIN_S)
    known = played(Memory(), *SHORT)
    later = ((2000.0, True, 9), (2000.0 + long_s, False, 4))
    assert played(known, *later).bursts == replace(known.bursts, began_at_s=2000.0)


@pytest.mark.parametrize(
    ("missed", "seen_s", "waits"),
    [(60.0, TOLD_S, False), (40.0, TOLD_S, True), (60.0, TOLD_S - BUCKET_S, True)],
)
@pytest.mark.parametrize("idle_s", [0.0, 4 * HOUR_S])
def test_nobody_waits_once_an_hour_has_used_up_what_may_be_missed(
    missed: float, seen_s: float, idle_s: float, waits: bool
) -> None:
    """Samples of at least half of it tell; hours of before do not."""
    now_s = 60 * BUCKET_S
    memory = played(Memory(), *SHORT, (now_s, True, 9))
    memory = replace(memory, bursts=replace(memory.bursts, lasted_s=35.0, lasted_at_s=now_s - 60))
    count, idle = int(seen_s // BUCKET_S), int(idle_s // BUCKET_S)
    record = Misses(
        objective=slo_key(TTFT, "TTFT", 1000),
        first=60 - count - idle + 1,
        missed=(*(0.0,) * idle, *(missed,) * count),
        total=(*(0.0,) * idle, *(1000.0,) * count),
    )
    found = confirmed_at_s(at(now_s, replace(memory, misses=(record,))))
    assert (found is not None) is waits


@pytest.mark.parametrize("look", [(BEGIN_S, False, 9), (BEGIN_S, True, 4)])
def test_a_slope_or_a_surge_that_fits_is_none(look: tuple[float, bool, int]) -> None:
    assert played(Memory(), look).bursts == Bursts()


@given(
    looks=st.lists(st.tuples(st.floats(1.0, 60.0), st.booleans(), st.integers(1, 12)), max_size=60)
)
def test_no_load_is_kept_waiting_longer_than_a_cold_start(
    looks: list[tuple[float, bool, int]],
) -> None:
    memory, now_s = Memory(), BEGIN_S
    for passed_s, surging, wanted in looks:
        now_s += passed_s
        memory = noted(at(now_s, memory, surging=surging), wanted)
        assert memory.bursts.lasted_s < COLD_S
        due_s = confirmed_at_s(at(now_s, memory))
        assert due_s is None or due_s - memory.bursts.since_s <= LONGER * COLD_S
