from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline_operator.domain.pods import PodView
from paceline_operator.domain.scale_in import DrainState, Fleet, Moves, Waiting, plan, strays
from tests.support.fleet import NOW_S, pod

SERVING = DrainState(refusing=False, announced=False, empty=True)
ANNOUNCED = DrainState(refusing=False, announced=True, empty=True)
BUSY = DrainState(refusing=True, announced=False, empty=False)
DONE = DrainState(refusing=True, announced=False, empty=True)


def fleet(pods: tuple[PodView, ...], target: int, **given: Any) -> Fleet:
    return Fleet(pods=pods, target=target, scale=given.pop("scale", len(pods)), **given)


def names(pods: tuple[PodView, ...]) -> list[str]:
    return [each.name for each in pods]


def test_scale_out_is_one_write_at_once() -> None:
    assert plan(fleet((pod("a"),), 3), NOW_S) == Moves(scale=3)


def test_nothing_to_do() -> None:
    assert plan(fleet((pod("a"), pod("b")), 2), NOW_S) == Moves()


@pytest.mark.parametrize(
    ("given_", "state", "is_stray"),
    [
        ({"ready": False}, ANNOUNCED, True),
        ({"ready": False}, BUSY, True),
        ({"ready": False}, SERVING, False),
        ({"ready": False, "draining_since_s": NOW_S - 3}, BUSY, False),
        ({"ready": False, "deleting": True}, BUSY, False),
        ({"ready": False}, None, False),
    ],
    ids=["announced", "refusing", "no drain", "our own", "leaving", "no answer"],
)
def test_what_drains_without_our_mark_strays(
    given_: dict[str, Any], state: DrainState | None, *, is_stray: bool
) -> None:
    one = pod("a", **given_)
    drains = {} if state is None else {"uid-a": state}
    assert strays((one, pod("b")), drains, ()) == ((one,) if is_stray else ())


@pytest.mark.parametrize("drain", [ANNOUNCED, BUSY, DONE])
def test_an_engine_that_is_ending_strays_not(drain: DrainState) -> None:
    one = pod("a", ready=False)
    assert strays((one,), {"uid-a": drain}, ()) == (one,)
    assert strays((one,), {"uid-a": replace(drain, terminal=True)}, ()) == ()


def test_what_is_about_to_be_drained_strays_not() -> None:
    one = pod("a", ready=False)
    assert strays((one,), {"uid-a": BUSY}, (one,)) == ()


def test_least_loaded_pod_is_drained_first() -> None:
    loads = {"uid-a": 5.0, "uid-b": 1.0, "uid-c": 3.0}
    moves = plan(fleet((pod("a"), pod("b"), pod("c")), 2, loads=loads), NOW_S)
    assert names(moves.begin) == ["b"]
    assert moves.scale is None
    assert moves.waiting is Waiting.DRAINING


def test_a_pod_that_nobody_can_read_is_drained_first() -> None:
    loads, lost = {"uid-a": 0.0, "uid-c": 3.0}, frozenset({"uid-b"})
    pods = (pod("a"), pod("b"), pod("c"))
    assert names(plan(fleet(pods, 2, loads=loads), NOW_S).begin) == ["a"]
    assert names(plan(fleet(pods, 2, loads=loads, lost=lost), NOW_S).begin) == ["b"]


@pytest.mark.parametrize(
    ("begun_s", "drain", "scale", "undone"),
    [
        (100.0, None, None, False),
        (400.0, None, 1, False),
        (400.0, BUSY, None, True),
        (100.0, DONE, 1, False),
    ],
    ids=["has its time", "is mute", "answers", "has drained"],
)
def test_a_lost_pod_whose_drain_tells_nothing_either_leaves_after_its_time(
    begun_s: float, drain: DrainState | None, scale: int | None, *, undone: bool
) -> None:
    """A drain that is told of is undone and tried again; this one could only be tried for ever."""
    one = pod("b", draining_since_s=NOW_S - begun_s)
    drains = {} if drain is None else {"uid-b": drain}
    given = fleet((pod("a"), one), 1, lost=frozenset({"uid-b"}), drains=drains, drain_s=300.0)
    moves = plan(given, NOW_S)
    assert moves.scale == scale
    assert names(moves.expired) == (["b"] if undone else [])
    assert names(plan(replace(given, lost=frozenset()), NOW_S).expired) == (
        ["b"] if begun_s > 300.0 and drain is not DONE else []
    )


def test_of_equal_pods_the_youngest_goes() -> None:
    loads = {"uid-a": 0.0, "uid-b": 0.0}
    pods = (pod("a"), pod("b", created_s=NOW_S - 10))
    assert names(plan(fleet(pods, 1, loads=loads), NOW_S).begin) == ["b"]


def test_a_pod_of_unknown_load_goes_last() -> None:
    moves = plan(fleet((pod("a"), pod("b")), 1, loads={"uid-a": 50.0}), NOW_S)
    assert names(moves.begin) == ["a"]


@pytest.mark.parametrize("state", [ANNOUNCED, BUSY], ids=["announced", "busy"])
def test_scale_waits_until_the_victim_is_empty_and_refuses(state: DrainState) -> None:
    pods = (pod("a"), pod("b", ready=False, draining_since_s=NOW_S - 3))
    moves = plan(fleet(pods, 1, drains={"uid-b": state}), NOW_S)
    assert (moves.scale, moves.begin, moves.undo) == (None, (), ())


def test_empty_victim_lets_scale_be_written() -> None:
    pods = (pod("a"), pod("b", ready=False, draining_since_s=NOW_S - 9))
    moves = plan(fleet(pods, 1, drains={"uid-b": DONE}), NOW_S)
    assert moves.scale == 1
    assert names(moves.victims) == ["b"]


def test_all_victims_must_be_empty() -> None:
    marked: dict[str, Any] = {"ready": False, "draining_since_s": NOW_S - 9}
    pods = (pod("a"), pod("b", **marked), pod("c", **marked))
    drains = {"uid-b": DONE, "uid-c": BUSY}
    assert plan(fleet(pods, 1, drains=drains), NOW_S).scale is None


def test_an_engine_that_forgot_its_drain_is_told_again() -> None:
    pods = (pod("a"), pod("b", draining_since_s=NOW_S - 9))
    assert names(plan(fleet(pods, 1, drains={"uid-b": SERVING}), NOW_S).begin) == ["b"]


def test_a_mark_whose_engine_does_not_answer_neither_counts_nor_is_repeated() -> None:
    pods = (pod("a"), pod("b", draining_since_s=NOW_S - 9))
    moves = plan(fleet(pods, 1), NOW_S)
    assert (moves.begin, moves.scale) == ((), None)


def test_no_scale_in_while_a_pod_that_stays_is_unready() -> None:
    pods = (
        pod("a", ready=False, created_s=NOW_S - 5),
        pod("b", ready=False, draining_since_s=NOW_S - 9),
    )
    moves = plan(fleet(pods, 1, drains={"uid-b": DONE}), NOW_S)
    assert (moves.scale, moves.waiting) == (None, Waiting.UNREADY)


def test_stuck_pods_go_first_and_need_no_drain() -> None:
    pods = (pod("a"), pod("b", ready=False, created_s=NOW_S - 1000))
    moves = plan(fleet(pods, 1, patience_s=240.0), NOW_S)
    assert moves.scale == 1
    assert names(moves.victims) == ["b"]


def test_stuck_pods_that_stay_hold_no_scale_in_up() -> None:
    stuck: dict[str, Any] = {"ready": False, "created_s": NOW_S - 1000}
    pods = (pod("a"), pod("b", **stuck), pod("c", **stuck), pod("d", **stuck))
    moves = plan(fleet(pods, 2, patience_s=240.0), NOW_S)
    assert (moves.scale, moves.waiting) == (2, None)
    assert set(names(moves.victims)) <= {"b", "c", "d"}


def test_a_marked_pod_leaves_beside_stuck_ones() -> None:
    stuck: dict[str, Any] = {"ready": False, "created_s": NOW_S - 1000}
    pods = (pod("a"), pod("b", ready=False, draining_since_s=NOW_S - 9), pod("c", **stuck))
    moves = plan(fleet(pods, 2, patience_s=240.0, drains={"uid-b": DONE}), NOW_S)
    assert (moves.scale, names(moves.victims)) == (2, ["b"])


def test_rollout_holds_a_scale_in_and_takes_drained_pods_back() -> None:
    pods = (pod("a"), pod("b", draining_since_s=NOW_S - 9))
    moves = plan(fleet(pods, 1, rolling_out=True, drains={"uid-b": DONE}), NOW_S)
    assert names(moves.undo) == ["b"]
    assert (moves.scale, moves.waiting) == (None, Waiting.ROLLOUT)


def test_demand_that_comes_back_takes_the_drained_pod_back() -> None:
    pods = (pod("a"), pod("b", ready=False, draining_since_s=NOW_S - 9))
    moves = plan(fleet(pods, 2), NOW_S)
    assert names(moves.undo) == ["b"]
    assert moves.scale is None


def test_mark_stays_between_the_write_and_the_end_of_the_pod() -> None:
    pods = (pod("a"), pod("b", ready=False, draining_since_s=NOW_S - 9))
    assert plan(fleet(pods, 1, scale=1, drains={"uid-b": DONE}), NOW_S) == Moves()


def test_wrong_victim_leaves_the_drained_pod_to_be_taken_back() -> None:
    pods = (pod("a", deleting=True), pod("b", ready=False, draining_since_s=NOW_S - 9))
    assert names(plan(fleet(pods, 1, scale=1), NOW_S).undo) == ["b"]


def test_drain_that_takes_too_long_is_undone() -> None:
    pods = (pod("a"), pod("b", ready=False, draining_since_s=NOW_S - 306))
    moves = plan(fleet(pods, 1, drain_s=300.0, drains={"uid-b": BUSY}), NOW_S)
    assert names(moves.undo) == names(moves.expired) == ["b"]


def test_a_drain_that_cannot_be_undone_is_tried_now_and_then() -> None:
    pods = (pod("a"), pod("b", ready=False, draining_since_s=NOW_S - 306))
    moves = plan(fleet(pods, 1, drain_s=300.0, retry_at_s=NOW_S + 1), NOW_S)
    assert moves == Moves(waiting=Waiting.RETRY)


def test_no_new_drain_before_the_retry() -> None:
    moves = plan(fleet((pod("a"), pod("b")), 1, retry_at_s=NOW_S + 1), NOW_S)
    assert (moves.begin, moves.waiting) == ((), Waiting.RETRY)


def test_missing_pods_are_given_up_before_living_ones() -> None:
    assert plan(fleet((pod("a"),), 1, scale=2), NOW_S) == Moves(scale=1)


def test_to_zero_every_pod_is_drained() -> None:
    assert names(plan(fleet((pod("a"), pod("b")), 0), NOW_S).begin) == ["a", "b"]


def test_a_pod_that_never_started_needs_no_drain() -> None:
    pods = (pod("a", ready=False, created_s=NOW_S - 1),)
    moves = plan(fleet(pods, 0), NOW_S)
    assert (moves.begin, moves.scale) == ((), 0)


@st.composite
def fleets(draw: st.DrawFn) -> Fleet:
    pods = tuple(
        pod(
            f"p{index}",
            ready=draw(st.booleans()),
            created_s=NOW_S - draw(st.integers(0, 1000)),
            deleting=draw(st.booleans()),
            draining_since_s=draw(st.none() | st.just(NOW_S - draw(st.integers(0, 600)))),
        )
        for index in range(draw(st.integers(0, 6)))
    )
    states = st.sampled_from([SERVING, ANNOUNCED, BUSY, DONE])
    drains = {each.uid: draw(states) for each in pods if draw(st.booleans())}
    return fleet(
        pods, draw(st.integers(0, 6)), scale=draw(st.integers(0, 6)), drains=drains,
        rolling_out=draw(st.booleans()),
    )  # fmt: skip


@given(fleets())
def test_scale_in_never_cuts_a_request(given_fleet: Fleet) -> None:
    moves = plan(given_fleet, NOW_S)
    live = [each for each in given_fleet.pods if each.live]
    if moves.scale is None or moves.scale >= given_fleet.scale:
        return
    assert moves.scale == given_fleet.target
    assert not given_fleet.rolling_out
    leaving = max(0, len(live) - moves.scale)
    assert len(moves.victims) >= leaving
    for victim in moves.victims:
        state = given_fleet.drains.get(victim.uid)
        assert not victim.ready or (state is not None and state.done)


@given(fleets())
def test_no_pod_is_both_drained_and_taken_back(given_fleet: Fleet) -> None:
    moves = plan(given_fleet, NOW_S)
    assert not {p.uid for p in moves.begin} & {p.uid for p in moves.undo}
    assert all(each.live for each in (*moves.begin, *moves.undo))


@pytest.mark.behaviour(
    "a pod that misses a probe is neither taken first nor let go without a drain",
    report="an old pod that was unready for a second counted as stuck, and its streams were cut",
)
def test_a_pod_that_was_ready_a_moment_ago_is_not_stuck() -> None:
    blinking = pod("a", ready=False, created_s=NOW_S - 9000, unready_since_s=NOW_S - 1, ip="1")
    moves = plan(fleet((blinking, pod("b"), pod("c")), 2, loads={"uid-b": 0.0}), NOW_S)
    assert (moves.scale, moves.waiting) == (None, Waiting.UNREADY)
    later = plan(fleet((blinking, pod("b"), pod("c")), 2, patience_s=0.5), NOW_S)
    assert (later.scale, names(later.victims)) == (2, ["a"])
    looping = replace(blinking, looping=True)
    found = plan(fleet((looping, pod("b"), pod("c")), 2), NOW_S)
    assert names(found.victims) == ["a"], "what keeps ending serves nobody"


@pytest.mark.parametrize(("replacing", "undone"), [(False, []), (True, ["b"])])
def test_marks_tell_the_controller_of_the_write_that_it_has_not_seen(
    replacing: bool, undone: list[str]
) -> None:
    """After the write of fewer replicas the Deployment counts as rolling out until it was seen."""
    pods = (pod("a"), pod("b", ready=False, draining_since_s=NOW_S - 9))
    given_fleet = fleet(pods, 1, scale=1, rolling_out=True, replacing=replacing)
    assert names(plan(given_fleet, NOW_S).undo) == undone
