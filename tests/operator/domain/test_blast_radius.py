"""The limit on changes over all services: exact in any minute, and patient moves first."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline_operator.autopilot.vocabulary.decision import Action, Decision, Knob, Reason, Tick
from paceline_operator.autopilot.vocabulary.fleet import Allowance
from paceline_operator.autopilot.vocabulary.memory import Memory
from paceline_operator.domain.blast_radius import (
    KEY,
    WINDOW_S,
    Change,
    Limits,
    allowance,
    dump,
    joined,
    load,
    made,
    recent,
)

A, B, C = ("team", "a"), ("team", "b"), ("team", "c")
NOW = 1000.0


def change(service: tuple[str, str], replicas: int = 0, ago_s: float = 10.0) -> Change:
    return Change(time_s=NOW - ago_s, service=service, replicas=replicas)


def decision(knob: Knob, reason: Reason, before: int, after: int, **more: object) -> Decision:
    action = Action.SCALE_OUT if after > before else Action.SCALE_IN
    given = {"applied": True, **more}
    return Decision(
        time_s=NOW, knob=knob, action=action, reason=reason, before=before, after=after, **given
    )  # type: ignore[arg-type]


def test_a_quiet_minute_leaves_everything() -> None:
    found = allowance(Limits(services=10, replicas=20), (), A, NOW)
    assert found == Allowance(knobs=True, out=20, inward=10, until_s=None)


def test_what_can_wait_gets_half() -> None:
    limits = Limits(services=2, replicas=20)
    found = allowance(limits, [change(B, 10)], A, NOW)
    assert found == Allowance(knobs=False, out=10, inward=0, until_s=NOW + 50)


def test_a_service_counts_once_however_often_it_moves() -> None:
    limits = Limits(services=1, replicas=20)
    assert allowance(limits, [change(A), change(A)], A, NOW).knobs
    assert allowance(limits, [change(B)], A, NOW) == Allowance(
        knobs=False, out=0, inward=0, until_s=NOW + 50
    )


@pytest.mark.parametrize(
    ("limits", "changes", "until_s"),
    [
        # Replicas are left when the first that took some counts no more, not a mere knob.
        (Limits(services=9, replicas=6), [change(B, 0, 50), change(C, 6, 20)], NOW + 40),
        # Giving back may use half: that the oldest is gone is not enough.
        (Limits(services=9, replicas=6), [change(B, 1, 50), change(C, 4, 20)], NOW + 40),
        # Its own changes hold a service from nothing.
        (Limits(services=1, replicas=6), [change(A, 0, 50), change(B, 0, 20)], NOW + 40),
        # The second of two services is one too many for what can wait.
        (Limits(services=4, replicas=9), [change(B, 0, 50), change(C, 0, 20)], NOW + 10),
        (Limits(services=2, replicas=9), [change(B, 0, 50), change(C, 0, 20)], NOW + 10),
        # A move that was cut short goes on when there are more replicas.
        (Limits(services=9, replicas=8), [change(B, 0, 50), change(C, 2, 20)], NOW + 40),
    ],
)
def test_more_is_possible_from_the_time_that_is_told(
    limits: Limits, changes: list[Change], until_s: float
) -> None:
    assert allowance(limits, changes, A, NOW).until_s == until_s


@given(
    changes=st.lists(
        st.builds(change, st.sampled_from([A, B, C]), st.integers(0, 5), st.floats(0.0, 59.0)),
        max_size=12,
    ),
    services=st.integers(1, 4),
    replicas=st.integers(1, 12),
)
def test_what_is_held_is_possible_then_and_not_before(
    changes: list[Change], services: int, replicas: int
) -> None:
    limits = Limits(services=services, replicas=replicas)
    now = allowance(limits, changes, A, NOW)
    if now.out:
        return
    assert now.until_s is not None
    assert allowance(limits, changes, A, now.until_s + 1e-3).out
    assert not allowance(limits, changes, A, now.until_s - 1e-3).out


def test_what_is_known_is_not_counted_twice() -> None:
    known = (change(A, 3), change(B, 1))
    assert joined(known, (change(A, 3), change(C))) == (*known, change(C))


def test_a_change_counts_for_a_minute() -> None:
    limits = Limits(services=5, replicas=4)
    assert allowance(limits, [change(B, 4, ago_s=59.9)], A, NOW).out == 0
    assert allowance(limits, [change(B, 4, ago_s=60.0)], A, NOW).out == 4


def test_the_smallest_limit_still_lets_something_move() -> None:
    found = allowance(Limits(services=1, replicas=1), (), A, NOW)
    assert (found.knobs, found.out, found.inward) == (True, 1, 1)


def test_counts_what_the_autopilot_decides_by_itself() -> None:
    decisions = (
        decision(Knob.BUDGET, Reason.TTFT_PRESSURE, 512, 640),
        decision(Knob.REPLICAS, Reason.DEMAND_FORECAST, 2, 5),
        decision(Knob.REPLICAS, Reason.DEMAND_LOW, 5, 4, applied=False),
    )
    found = made(Tick(decisions=decisions, actions=(), memory=Memory()), A, NOW)
    assert [(c.service, c.replicas) for c in found] == [(A, 0), (A, 3)]


def test_does_not_count_what_people_order() -> None:
    ordered = (Reason.MANUAL_VALUE, Reason.BELOW_MINIMUM, Reason.ABOVE_MAXIMUM, Reason.SCHEDULE)
    decisions = tuple(decision(Knob.REPLICAS, reason, 2, 9) for reason in ordered)
    limits = (decision(Knob.BUDGET, Reason.OUTSIDE_LIMITS, 4096, 2048),)
    assert made(Tick(decisions=decisions + limits, actions=(), memory=Memory()), A, NOW) == ()
    assert made(None, A, NOW) == ()


def test_what_a_clock_that_was_ahead_has_left_counts_from_now_on() -> None:
    (found,) = load({KEY: [[5000.0, 3]]}, A, 1000.0)
    assert (found.time_s, found.service, found.replicas) == (1000.0, A, 3)


@pytest.mark.behaviour(
    "what a status remembers is counted once, however often and whenever it is read",
    report="changes left by a clock that was ahead were counted at take-over and again in the "
    "first pass",
)
@given(
    made_ago_s=st.lists(
        st.tuples(st.floats(-9e3, 59.0), st.integers(0, 5)), max_size=6, unique_by=lambda c: c[0]
    ),
    pauses_s=st.lists(st.floats(0.0, 9.0), min_size=1, max_size=6),
)
def test_what_is_loaded_again_is_counted_once(
    made_ago_s: list[tuple[float, int]], pauses_s: list[float]
) -> None:
    stored: list[list[float]] = [[NOW - ago_s, replicas] for ago_s, replicas in made_ago_s]
    now_s, known = NOW, joined((), load({KEY: stored}, A, NOW))
    assert sum(each.replicas for each in known) == sum(replicas for _, replicas in made_ago_s)
    once = known
    for pause_s in pauses_s:
        now_s += pause_s
        known = joined(known, load({KEY: stored}, A, now_s))
        stored = dump(known, A)
        assert known == once


def test_what_a_process_made_itself_is_known_as_its_status_has_it() -> None:
    known = (Change(time_s=1000.04, service=A, replicas=3),)
    assert joined(known, load({KEY: dump(known, A)}, A, 1001.0)) == known


def test_is_remembered_over_a_restart() -> None:
    changes = (change(A, 3), change(B, 1), change(A, 0, ago_s=1.0))
    assert load({KEY: dump(changes, A)}, A, inf) == (changes[0], changes[2])


def test_a_damaged_memory_is_none() -> None:
    assert load({KEY: [["x"]]}, A, 0.0) == ()
    assert load({KEY: [["nan", 3]]}, A, 0.0) == ()
    assert load({KEY: 3}, A, 0.0) == ()
    assert load(None, A, 0.0) == ()


wishes = st.lists(
    st.tuples(
        st.floats(0.0, 25.0),
        st.sampled_from([A, B, C, ("other", "a")]),
        st.integers(-9, 9),
    ),
    max_size=60,
)


@given(wishes=wishes, services=st.integers(1, 4), replicas=st.integers(1, 12))
def test_no_minute_ever_holds_more_than_the_limit(
    wishes: list[tuple[float, tuple[str, str], int]], services: int, replicas: int
) -> None:
    limits, now_s = Limits(services=services, replicas=replicas), NOW
    kept: tuple[Change, ...] = ()
    done: list[Change] = []
    for pause_s, service, delta in wishes:
        now_s += pause_s
        kept = recent(kept, now_s)
        left = allowance(limits, kept, service, now_s)
        size = min(abs(delta), (left.out if delta > 0 else left.inward) or 0)
        if size or (not delta and left.knobs):
            done.append(Change(time_s=now_s, service=service, replicas=size))
            kept = (*kept, done[-1])
    for first in done:
        minute = [c for c in done if first.time_s <= c.time_s < first.time_s + WINDOW_S]
        assert sum(c.replicas for c in minute) <= replicas
        assert len({c.service for c in minute}) <= services
