from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline_operator.autopilot.replicas.recommendation import (
    MOST_KEPT,
    MOST_WINDOWS,
    RETURN_LASTS_S,
    RETURN_S,
    down_window_s,
    of_scale_out,
    peak,
    recorded,
)
from paceline_operator.autopilot.situation.situation import understand
from paceline_operator.autopilot.vocabulary.memory import Memory, Return
from tests.operator.autopilot.build import auto, fleet, window

NOW = 1000.0


def record(values: list[int], every_s: float = 15.0, seen_s: float = 60.0) -> Memory:
    memory, given_policy = Memory(cold_starts_s=(10.0,)), auto(down_window_s=60.0)
    for number, value in enumerate(values):
        now_s = 1000 + every_s * number
        seen = fleet(slices=(window(now_s - seen_s, now_s),))
        s = understand(given_policy, seen, memory, now_s)
        memory = recorded(s, memory, value)
        memory = Memory(
            cold_starts_s=(10.0,),
            recommended=memory.recommended,
            recommending_since_s=memory.recommending_since_s,
            replica_at_s=s.now_s,
        )
    return memory


@given(st.lists(st.integers(1, 9), min_size=1, max_size=12))
def test_the_peak_is_that_of_the_window(values: list[int]) -> None:
    memory = record(values)
    assert peak(memory) == max(values[-4:])  # 60 s hold four values 15 s apart
    assert len(memory.recommended) <= 4


@pytest.mark.behaviour(
    "an operator that has just begun takes no replica for want of memory",
    report="knative/serving#4795: a restart forgot the load and took six of seven pods",
)
def test_who_has_hardly_seen_anything_wants_no_fewer_than_were_wanted_before() -> None:
    assert peak(record([5, 1, 1, 1, 1, 1], seen_s=55.0)) == 5
    assert peak(record([5, 1, 1, 1, 1, 1], seen_s=60.0)) == 1
    assert peak(record([2, 6], seen_s=5.0)) == 6


def test_a_gap_starts_the_record_anew() -> None:
    assert record([3, 3, 3]).recommending_since_s == 1000
    assert record([3, 3, 3], every_s=120.0).recommending_since_s == 1240


@settings(deadline=None)
@given(st.lists(st.integers(1, 2000), min_size=1, max_size=200))
def test_the_record_stays_short_and_its_peak_is_never_too_low(wanted: list[int]) -> None:
    policy, memory = auto(down_window_s=3600.0), Memory()
    wanted = sorted(wanted, reverse=True)
    for turn, replicas in enumerate(wanted):
        now_s = NOW + 15.0 * turn
        seen = fleet(now_s=now_s, slices=(window(now_s - 90, now_s),))
        memory = recorded(understand(policy, seen, memory, now_s), memory, replicas)
        in_window = [n for at, n in enumerate(wanted[: turn + 1]) if 15.0 * (turn - at) < 3600.0]
        assert peak(memory) >= max(in_window)
        assert len(memory.recommended) <= MOST_KEPT
        assert memory.recommended[-1].replicas <= peak(memory)


@pytest.mark.parametrize(
    ("gone_s", "known_s", "window_s"),
    [
        (150.0, None, 450.0),  # five minutes, and as long as replicas were missed
        (150.0, 450.0, 600.0),  # again: longer again
        (150.0, 1190.0, MOST_WINDOWS * 300.0),
        (RETURN_S, None, None),  # gone for so long they were not needed
        (RETURN_S, 450.0, 450.0),
    ],
)
def test_a_load_that_comes_back_makes_the_window_longer(
    gone_s: float, known_s: float | None, window_s: float | None
) -> None:
    returned = None if known_s is None else Return(at_s=NOW - 900, window_s=known_s)
    memory = Memory(scaled_in_at_s=NOW - gone_s, scaled_in_from=3, returned=returned)
    s = understand(auto(down_window_s=300.0), fleet(now_s=NOW), memory, NOW)
    found = of_scale_out(s)
    assert (found and found.window_s) == window_s


@pytest.mark.parametrize(("ago_s", "window_s"), [(60.0, 700.0), (RETURN_LASTS_S, 300.0)])
def test_for_an_hour(ago_s: float, window_s: float) -> None:
    memory = Memory(returned=Return(at_s=NOW - ago_s, window_s=700.0))
    s = understand(auto(down_window_s=300.0), fleet(now_s=NOW), memory, NOW)
    assert down_window_s(s) == window_s
    longer = understand(auto(down_window_s=900.0), fleet(now_s=NOW), memory, NOW)
    assert down_window_s(longer) == 900.0


def test_of_each_scale_in_the_first_way_back_counts() -> None:
    first = Return(at_s=NOW - 60, window_s=450.0)
    memory = Memory(scaled_in_at_s=NOW - 210, scaled_in_from=3, returned=first)
    s = understand(auto(down_window_s=300.0), fleet(now_s=NOW), memory, NOW)
    assert of_scale_out(s) == first


def test_what_somebody_else_took_away_is_no_load_that_comes_back() -> None:
    memory = Memory(scaled_in_at_s=NOW - 60, scaled_in_from=0)
    s = understand(auto(down_window_s=300.0), fleet(now_s=NOW), memory, NOW)
    assert of_scale_out(s) is None


def test_a_shorter_window_in_the_spec_shortens_a_grown_one() -> None:
    memory = Memory(returned=Return(at_s=NOW - 60, window_s=1200.0))
    s = understand(auto(down_window_s=60.0), fleet(now_s=NOW), memory, NOW)
    assert down_window_s(s) == MOST_WINDOWS * 60.0
