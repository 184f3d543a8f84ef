from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from paceline_operator.simulator.fleet.faults import (
    NoRoom,
    OperatorAway,
    PodKilled,
    PodsStuck,
    RouterSkewed,
    ScaleWritten,
    StepsSlower,
)
from paceline_operator.simulator.request import Request
from paceline_operator.simulator.result import Result
from paceline_operator.simulator.scoring.outcome import COMPLETED, FAILED
from tests.operator.simulator.fleets import Scripted, poisson, run, to


def ready(result: Result, *times_s: float) -> list[int]:
    return [next(s.ready for s in result.samples if s.time_s == at_s) for at_s in times_s]


def test_a_replica_ordered_serves_after_the_cold_start() -> None:
    law = Scripted({10.0: to(3)})
    result = run(poisson(1.0, 60.0), law, until_s=60.0)
    assert ready(result, 10.0, 30.0, 35.0) == [2, 2, 3]
    (pod,) = (pod for pod in law.at(35.0).pods if pod.name == "pod-3")
    assert pod.ready_since_s is not None
    assert pod.ready_since_s - pod.created_s == pytest.approx(20.0)


def test_cold_starts_vary_by_their_share() -> None:
    law = Scripted({5.0: to(12)})
    run(iter([]), law, until_s=60.0, cold_start_jitter=0.25, initial_replicas=1)
    took = [pod.ready_since_s - pod.created_s for pod in law.at(55.0).pods[1:]
            if pod.ready_since_s is not None]  # fmt: skip
    assert len(took) == 11
    assert 15.0 <= min(took) < 18.0
    assert 22.0 < max(took) <= 25.0


def test_a_killed_pod_loses_its_requests_and_is_made_anew() -> None:
    sent = [Request(0.1 * place, 50, 2000) for place in range(1, 5)]
    law = Scripted()
    result = run(iter(sent), law, until_s=60.0, faults=[PodKilled(at_s=12.0)])
    assert Counter(o.outcome for o in result.outcomes) == {FAILED: 2, COMPLETED: 2}
    assert all(o.ttft_s is not None for o in result.outcomes if o.outcome == FAILED)
    assert ready(result, 10.0, 15.0, 30.0, 35.0) == [2, 1, 1, 2]
    assert [pod.name for pod in law.at(40.0).pods] == ["pod-2", "pod-3"]
    assert result.cut == 0


def test_a_lost_node_is_listed_as_ready_for_a_while_but_gets_no_request() -> None:
    law = Scripted()
    lost = [PodKilled(at_s=12.0, unnoticed_s=40.0)]
    result = run(poisson(2.0, 80.0, output=20), law, until_s=90.0, faults=lost)
    assert [law.at(at_s).pods[0].name for at_s in (45.0, 55.0)] == ["pod-1", "pod-2"]
    assert [law.at(at_s).pods[0].data for at_s in (20.0, 30.0, 45.0)] == ["fresh", "stale", "stale"]
    failed = [o for o in result.outcomes if o.outcome != COMPLETED]
    assert len(failed) <= 2
    assert all(o.arrival_s <= 12.0 for o in failed)


def test_what_finds_no_room_waits_without_a_node() -> None:
    law = Scripted({10.0: to(5)})
    result = run(iter([]), law, until_s=90.0, faults=[NoRoom(start_s=0.0, end_s=50.0, pods=3)])
    assert [bool(pod.no_room) for pod in law.at(40.0).pods] == [False, False, False, True, True]
    assert ready(result, 45.0, 65.0, 75.0) == [3, 3, 5]
    assert not any(pod.no_room for pod in law.at(55.0).pods)


def test_room_that_a_pod_leaves_is_taken() -> None:
    law = Scripted({10.0: to(3)})
    result = run(iter([]), law, until_s=60.0,
                 faults=[NoRoom(start_s=0.0, pods=2), PodKilled(at_s=12.0)])  # fmt: skip
    assert ready(result, 15.0, 40.0, 55.0) == [1, 2, 2]


def test_stuck_pods_start_when_it_is_over() -> None:
    law = Scripted({10.0: to(3)})
    result = run(iter([]), law, until_s=90.0, faults=[PodsStuck(start_s=0.0, end_s=40.0)])
    assert ready(result, 35.0, 55.0, 65.0) == [2, 2, 3]
    assert not any(pod.no_room for pod in law.at(35.0).pods)


def ttft_s(result: Result, start_s: float, end_s: float) -> list[float]:
    return [o.ttft_s for o in sorted(result.outcomes, key=lambda o: o.arrival_s)
            if start_s <= o.arrival_s < end_s and o.ttft_s is not None]  # fmt: skip


def alone(every_s: float, until_s: float) -> list[Request]:
    return [Request(0.5 + every_s * place, 400, 2) for place in range(int(until_s / every_s))]


def test_slower_steps_take_longer_while_it_lasts() -> None:
    """A prompt of 400 alone takes 50 ms."""
    slow = [StepsSlower(start_s=20.0, end_s=40.0, factor=1.5)]
    result = run(iter(alone(1.0, 60.0)), faults=slow)
    assert ttft_s(result, 0.0, 20.0) == pytest.approx([0.050] * 20)
    assert ttft_s(result, 20.0, 40.0) == pytest.approx([0.075] * 20)
    assert ttft_s(result, 40.0, 60.0) == pytest.approx([0.050] * 20)


def test_new_pods_warm_up() -> None:
    more: dict[str, Any] = {"warm_up_s": 10.0, "warm_up_factor": 3.0, "until_s": 61.0}
    law = Scripted({5.0: to(2)})
    result = run(iter(alone(1.0, 60.0)), law, initial_replicas=1, readiness_delay_s=0.0, **more)
    assert ttft_s(result, 0.0, 25.0) == pytest.approx([0.050] * 25)
    assert sorted(ttft_s(result, 26.0, 35.0))[-4:] == pytest.approx([0.150] * 4)
    assert ttft_s(result, 36.0, 60.0) == pytest.approx([0.050] * 24)


def test_a_skewed_router_loads_the_oldest_pod() -> None:
    law = Scripted()
    skewed = [RouterSkewed(start_s=0.0, share=0.9)]
    run(poisson(8.0, 20.0, output=100), law, until_s=20.0, faults=skewed)
    first, second = law.at(15.0).pods
    assert first.running + first.waiting > 3 * (second.running + second.waiting)


def test_somebody_elses_scale_in_lets_requests_end() -> None:
    """Nobody drained the victim: the engine drains itself when it is told to go."""
    sent = [Request(0.1 * place, 50, 2200) for place in range(1, 5)]
    result = run(iter(sent), faults=[ScaleWritten(at_s=10.0, replicas=1)], until_s=60.0)
    assert [o.outcome for o in result.outcomes] == [COMPLETED] * 4
    assert [s.existing for s in result.samples if s.time_s in (5.0, 20.0, 40.0)] == [2, 2, 1]
    assert result.cut == 0


def test_what_does_not_end_in_time_is_cut() -> None:
    sent = [Request(0.1 * place, 50, 3000) for place in range(1, 5)]
    faults = [ScaleWritten(at_s=10.0, replicas=1)]
    result = run(iter(sent), faults=faults, until_s=60.0, drain_s=5.0)
    assert Counter(o.outcome for o in result.outcomes) == {COMPLETED: 2, FAILED: 2}
    assert result.cut == 2


def test_a_pod_that_leaves_makes_room_only_when_it_is_gone() -> None:
    """Its requests run until second 24; the pod that waits for its place starts then."""
    sent = [Request(0.1 * place, 50, 2200) for place in range(1, 5)]
    faults = [
        NoRoom(start_s=0.0, pods=2),
        ScaleWritten(at_s=10.0, replicas=1),
        ScaleWritten(at_s=11.0, replicas=2),
    ]
    result = run(iter(sent), faults=faults, until_s=60.0)
    assert [s.existing for s in result.samples if s.time_s in (15.0, 30.0)] == [3, 2]
    assert ready(result, 40.0, 50.0) == [1, 2]


def test_of_unready_pods_that_run_the_marked_one_goes_first() -> None:
    """Nobody undoes its drain, since the operator is away; the other one is still starting."""
    sent = [Request(0.1 * place, 50, 3000) for place in range(1, 5)]
    faults = [
        OperatorAway(start_s=12.0),
        ScaleWritten(at_s=13.0, replicas=3),
        ScaleWritten(at_s=20.0, replicas=2),
    ]
    law = Scripted({10.0: to(1)})
    result = run(iter(sent), law, faults=faults, until_s=60.0)
    assert ready(result, 15.0, 30.0, 35.0) == [1, 1, 2]
    assert [s.existing for s in result.samples if s.time_s in (15.0, 25.0, 50.0)] == [3, 3, 2]


def test_the_router_learns_which_pods_are_lost() -> None:
    """It tries four pods for a request; five of six are lost, and have the fewest requests."""
    lost = [PodKilled(at_s=12.0, unnoticed_s=40.0) for _ in range(5)]
    result = run(poisson(4.0, 30.0, output=20), faults=lost, initial_replicas=6)
    after = [o.outcome for o in result.outcomes if o.arrival_s > 13.0]
    assert after == [COMPLETED] * len(after)
    assert len(after) > 30
