"""Which pods are slower than their pool, and what that changes for the others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline_operator.autopilot.learning import learned
from paceline_operator.autopilot.measurement.attainment import measure
from paceline_operator.autopilot.notices import noticed, slow_pods
from paceline_operator.autopilot.plant.law import StepLoad
from paceline_operator.autopilot.plant.pace import MOST_KEPT, sick
from paceline_operator.autopilot.plant.plant import laws
from paceline_operator.autopilot.plant.prior import GENERIC
from paceline_operator.autopilot.situation.situation import Situation, understand
from paceline_operator.autopilot.vocabulary.decision import Reason
from paceline_operator.autopilot.vocabulary.fleet import FleetObservation
from paceline_operator.autopilot.vocabulary.memory import Memory, PodPace
from paceline_operator.autopilot.vocabulary.window import (
    Moments,
    PodShare,
    SloCounts,
    StepClass,
    Window,
    merge,
    slo_key,
)
from tests.operator.autopilot.build import ITL, auto, fleet, moments, pod, window

BEGIN_S = 1000.0
STEPS = 60


def steps(factor: float, turn: int) -> dict[StepClass, Moments]:
    """Of one pod in 5 s; rows and chunks vary, or no law could be told from another."""
    decode, mixed = [], []
    for number in range(STEPS // 2):
        rows, chunk = 4 + (number + turn) % 9, 100 + 40 * ((number * 3 + turn) % 7)
        kv = 700.0 * rows
        decode.append((0.0, rows, kv, 0.0, factor * (20.0 + 0.3 * rows + 1e-4 * kv) / 1e3))
        took = factor * (18.0 + 0.1 * chunk + 0.3 * rows + 1e-4 * kv) / 1e3
        mixed.append((chunk, rows, kv, 50.0 * chunk, took))
    return {StepClass.DECODE_ONLY: moments(*decode), StepClass.MIXED: moments(*mixed)}


def slice_of(factors: dict[str, float], turn: int, *, bad: str = "") -> Window:
    """Five seconds of some pods; one of them breaks the ITL objective."""
    start_s = BEGIN_S + 5.0 * turn
    key = slo_key(ITL, "ITL", 100)
    parts = []
    for uid, factor in factors.items():
        counts = {key: SloCounts(0.0, 200.0) if uid == bad else SloCounts(200.0, 0.0)}
        share = PodShare(steps(factor, turn), 5.0, counts)
        part = window(start_s, start_s + 5.0, steps=share.steps, slo=counts, pods={uid: share})
        parts.append(part)
    return merge(parts)


def seen(slices: tuple[Window, ...], pods: int = 4) -> FleetObservation:
    made = tuple(pod(n + 1, ready_since_s=BEGIN_S - 100) for n in range(pods))
    return fleet(pods=made, slices=slices, now_s=slices[-1].end_s)


def watched(
    factors: dict[str, float], turns: int, memory: Memory | None = None, *, first: int = 0
) -> Memory:
    memory = memory or Memory()
    for turn in range(first, first + turns):
        found = seen((slice_of(factors, turn),), len(factors))
        memory = learned(auto(), found, memory, found.now_s)
    return memory


def uids(*factors: float) -> dict[str, float]:
    return {f"uid-{n + 1}": factor for n, factor in enumerate(factors)}


@pytest.mark.parametrize(
    ("factors", "slow"),
    [
        (uids(1.0, 1.0, 1.0, 1.0), set()),
        (uids(1.0, 1.15, 0.9, 1.0), set()),
        (uids(1.0, 1.6, 1.0, 1.0), {"uid-2"}),
        (uids(1.0, 1.6, 1.6, 1.0), {"uid-2", "uid-3"}),
        (uids(1.0, 1.6), {"uid-2"}),
        (uids(1.6), set()),
        (uids(1.6, 1.6, 1.6), set()),
    ],
    ids=["alike", "nearly", "one of four", "two of four", "one of two", "alone", "all"],
)
def test_a_pod_that_stays_slower_than_its_pool_is_sick(
    factors: dict[str, float], slow: set[str]
) -> None:
    memory = watched(uids(*[1.0] * len(factors)), 8)
    assert sick(watched(factors, 20, memory, first=8).paces) == slow


def test_a_pod_is_not_sick_at_once_and_is_sound_again_once_it_keeps_pace() -> None:
    memory = watched(uids(1.0, 1.0, 1.0), 8)
    slow = uids(1.0, 1.0, 2.0)
    memory = watched(slow, 5, memory, first=8)
    assert not sick(memory.paces)
    memory = watched(slow, 8, memory, first=13)
    assert sick(memory.paces) == {"uid-3"}
    assert not sick(watched(uids(1.0, 1.0, 1.0), 24, memory, first=21).paces)


def test_a_pod_that_has_just_come_up_is_not_judged() -> None:
    memory = watched(uids(1.0, 1.0), 8)
    young = (pod(1, ready_since_s=0.0), pod(2, ready_since_s=BEGIN_S + 60))
    for turn in range(8, 18):
        found = fleet(pods=young, slices=(slice_of(uids(1.0, 2.0), turn),))
        memory = learned(auto(), found, memory, BEGIN_S + 5.0 * turn)
    assert [pace.uid for pace in memory.paces] == ["uid-1"]


LOAD = StepLoad(prefill_tokens=200, decode_rows=8, kv_tokens=5600, chunk_context=1e4)


def full_ms(memory: Memory) -> float:
    return laws(memory, GENERIC)[1].step_ms(LOAD)


def test_the_model_stays_that_of_the_sound_pods() -> None:
    assert full_ms(watched(uids(1.0, 1.0, 2.5, 1.0), 40)) == pytest.approx(41, rel=0.08)


def test_a_pod_that_warms_up_does_not_teach_the_model() -> None:
    memory = watched(uids(1.0, 1.0), 20)
    pods = (pod(1, ready_since_s=0.0), pod(2, ready_since_s=BEGIN_S + 99))
    for turn in range(20, 26):
        found = fleet(pods=pods, slices=(slice_of(uids(1.0, 1.6), turn),))
        memory = learned(auto(), found, memory, BEGIN_S + 5.0 * turn)
    assert full_ms(memory) == pytest.approx(41, rel=0.05)


SICK = Memory(paces=(PodPace(uid="uid-2", slower=2.0, slow_since_s=0.0, sick=True),))


def situation(memory: Memory = SICK) -> Situation:
    slices = tuple(slice_of(uids(1.0, 2.0, 1.0), n, bad="uid-2") for n in range(4))
    found = seen(slices, 3)
    return understand(auto(), found, replace(memory, learned_until_s=found.now_s), found.now_s)


def test_the_live_knobs_are_not_judged_by_a_sick_pod() -> None:
    s, all_pods = situation(), situation(Memory())
    itl = s.policy.objectives[1]
    assert measure(itl, s.since_change).attainment == 1.0
    assert measure(itl, all_pods.since_change).attainment == pytest.approx(2 / 3)
    assert s.since_change.moments().count == pytest.approx(2 / 3 * 4 * 3 * STEPS)
    assert not s.itl_violated
    assert all_pods.itl_violated


def test_a_sick_pod_counts_for_the_share_it_does() -> None:
    assert situation().lacking == pytest.approx(0.5)
    assert situation(Memory()).lacking == 0.0


def test_it_is_told_once_by_name() -> None:
    s = situation()
    (notice,) = noticed(Memory(), s)
    assert notice.reason is Reason.POD_SLOW
    assert notice.warning
    assert "Pod pod-2 takes 2.00 times as long" in notice.message
    assert noticed(s.memory, s) == ()
    well = replace(SICK.paces[0], slower=1.0, sick=False, slow_since_s=None, judged_at_s=1020.0)
    (back,) = noticed(s.memory, situation(Memory(paces=(well,))))
    assert back.reason is Reason.POD_RECOVERED
    assert slow_pods(s) == {"pod-2": 2.0}


def test_what_is_only_forgotten_is_no_recovery() -> None:
    s = situation()
    forgotten = replace(SICK.paces[0], slower=1.0, sick=False, slow_since_s=None)
    for paces in ((), (forgotten,)):
        assert noticed(s.memory, situation(Memory(paces=paces))) == ()


def without_shares(
    memory: Memory, quiet: set[str], turns: int, first: int, factor: float
) -> tuple[Memory, list[Reason]]:
    """Slices in which some of three pods have no steps; the others run this much slower."""
    told: list[Reason] = []
    for turn in range(first, first + turns):
        busy = {uid: factor for uid in uids(1.0, 1.0, 1.0) if uid not in quiet}
        found = seen((slice_of(busy, turn),), 3)
        before, memory = memory, learned(auto(), found, memory, found.now_s)
        told += [n.reason for n in noticed(before, understand(auto(), found, memory, found.now_s))]
    return memory, told


SLOW_AT_21 = uids(1.0, 1.0, 2.0)


def sick_third() -> Memory:
    memory = watched(SLOW_AT_21, 13, watched(uids(1.0, 1.0, 1.0), 8), first=8)
    assert sick(memory.paces) == {"uid-3"}
    return memory


@pytest.mark.parametrize("factor", [1.0, 2.0], ids=["others as before", "others slower too"])
def test_a_sick_pod_without_steps_of_its_own_has_not_recovered(factor: float) -> None:
    memory, told = without_shares(sick_third(), {"uid-3"}, 12, 21, factor)
    assert sick(memory.paces) == {"uid-3"}
    assert Reason.POD_RECOVERED not in told


def test_a_verdict_that_nothing_speaks_for_any_more_is_forgotten_in_silence() -> None:
    memory, told = without_shares(sick_third(), {"uid-3"}, 66, 21, 1.0)
    assert not sick(memory.paces)
    assert told == []


def test_a_pod_is_not_sick_for_what_it_did_before_it_fell_silent() -> None:
    memory = watched(SLOW_AT_21, 5, watched(uids(1.0, 1.0, 1.0), 8), first=8)
    assert not sick(memory.paces)
    assert not sick(without_shares(memory, {"uid-3"}, 12, 13, 1.0)[0].paces)


def test_a_slice_of_the_sick_pod_alone_is_no_comparison() -> None:
    """The other two did not answer in time, for longer than their steps are remembered."""
    memory, told = without_shares(sick_third(), {"uid-1", "uid-2"}, 30, 21, 2.0)
    assert sick(memory.paces) == {"uid-3"}
    assert Reason.POD_RECOVERED not in told


def test_the_last_pod_of_a_fleet_is_what_the_fleet_is() -> None:
    memory = sick_third()
    found = fleet(pods=(pod(3, ready_since_s=0.0),), slices=(slice_of({"uid-3": 2.0}, 21),),
                  now_s=BEGIN_S + 110)  # fmt: skip
    after = learned(auto(), found, memory, found.now_s)
    assert not sick(after.paces)
    assert noticed(memory, understand(auto(), found, after, found.now_s)) == ()


def test_a_pod_that_is_gone_is_not_remembered_though_nothing_is_measured() -> None:
    memory = sick_third()
    left = fleet(pods=(pod(1), pod(2)), slices=(), now_s=BEGIN_S + 120)
    assert [p.uid for p in learned(auto(), left, memory, left.now_s).paces] == ["uid-1", "uid-2"]


def test_of_a_large_fleet_the_slow_pods_are_kept() -> None:
    pods = 100
    memory = watched(uids(*[1.0] * pods), 8)
    factors = [2.0 if n in (70, 71) else 1.3 if n == 5 else 1.0 for n in range(pods)]
    memory = watched(uids(*factors), 14, memory, first=8)
    assert len(memory.paces) == MOST_KEPT
    assert sick(memory.paces) >= {"uid-71", "uid-72"}
    assert "uid-6" in {pace.uid for pace in memory.paces}
