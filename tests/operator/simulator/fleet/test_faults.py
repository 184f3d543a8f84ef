from __future__ import annotations

from math import inf

import pytest

from paceline_operator.simulator.engine.speculation import Speculation
from paceline_operator.simulator.fleet.faults import (
    Autoscaled,
    Faults,
    MetricsFrozen,
    NoRoom,
    PodKilled,
    PodsStuck,
    PushesLost,
    RouterSkewed,
    ScrapesLost,
    SeriesLinger,
    Speculating,
    StepsSlower,
)

ONE = frozenset({1})


def test_times_count_from_the_beginning_of_the_load() -> None:
    faults = Faults([ScrapesLost(start_s=0.1, end_s=0.3), PodKilled(at_s=5.0)], 1000.0)
    moments = (1000.0, 1000.0 + 0.1, 1000.0 + 0.2, 1000.0 + 0.3)
    hits = [faults.hits(ScrapesLost, 1, moment) for moment in moments]
    assert hits == [False, True, True, False]
    assert [fault.at_s for fault in faults.all if isinstance(fault, PodKilled)] == [1005.0]


def test_one_kind_and_some_pods() -> None:
    faults = Faults([ScrapesLost(start_s=0.0, pods=ONE)], 0.0)
    assert faults.hits(ScrapesLost, 1, 7.0)
    assert not faults.hits(ScrapesLost, 2, 7.0)
    assert not faults.hits(MetricsFrozen, 1, 7.0)


def test_slow_steps_multiply_and_losses_add_up_as_chances_do() -> None:
    faults = Faults(
        [
            StepsSlower(start_s=0.0, factor=1.5),
            StepsSlower(start_s=10.0, factor=2.0, pods=ONE),
            PushesLost(start_s=0.0, probability=0.5),
            PushesLost(start_s=0.0, probability=0.2, pods=ONE),
        ],
        0.0,
    )
    assert [faults.slowness(1, 5.0), faults.slowness(1, 10.0), faults.slowness(2, 10.0)] == [
        1.5, 3.0, 1.5,
    ]  # fmt: skip
    assert faults.push_loss(1, 5.0) == pytest.approx(0.6)
    assert faults.push_loss(2, 5.0) == pytest.approx(0.5)


def test_speculation_is_that_of_the_pods_it_concerns() -> None:
    fault = Speculating(start_s=0.0, end_s=10.0, pods=frozenset({2}), tokens=4, factor=1.5)
    faults = Faults([fault], 100.0)
    assert faults.speculation(2, 105.0) == Speculation(4, 1.5)
    assert faults.speculation(1, 105.0) == faults.speculation(2, 110.0) == Speculation(1, 1.0)


def test_without_faults_all_is_well() -> None:
    faults = Faults([], 1000.0)
    sound = (faults.slowness(1, 1.0), faults.push_loss(1, 1.0), faults.skew(1.0), faults.room(1.0))
    assert sound == (1.0, 0.0, None, inf)
    assert faults.starts_s(7.0) == 7.0


def test_what_concerns_the_whole_fleet() -> None:
    faults = Faults(
        [
            RouterSkewed(start_s=0.0, end_s=10.0, share=0.7),
            NoRoom(start_s=0.0, end_s=10.0, pods=3),
            PodsStuck(start_s=0.0, end_s=10.0),
        ],
        100.0,
    )
    assert (faults.skew(105.0), faults.room(105.0), faults.starts_s(105.0)) == (0.7, 3, 110.0)
    assert (faults.skew(110.0), faults.room(110.0), faults.starts_s(110.0)) == (None, inf, 110.0)


def test_what_others_do_around_the_fleet() -> None:
    others = [
        Autoscaled(start_s=5.0, end_s=10.0, replicas=4, name="HPA chat"),
        SeriesLinger(start_s=0.0, end_s=10.0, linger_s=60.0),
    ]
    faults = Faults(others, 100.0)
    assert [faults.autoscaler(at_s) for at_s in (104.0, 105.0, 110.0)] == [None, "HPA chat", None]
    assert [faults.lingers_s(at_s) for at_s in (109.0, 110.0)] == [60.0, 0.0]
