from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from paceline_operator.simulator.fleet.fleet_config import Routing, RoutingKind
from paceline_operator.simulator.fleet.pods import Pod
from paceline_operator.simulator.fleet.router import Router, router


@dataclass
class Idle:
    """An engine whose next request ends at a time."""

    pod: Any = None
    next_event_s: float = 1e9

    def advance(self, now_s: float) -> None:
        if self.next_event_s <= now_s:
            self.pod.connections -= 1
            self.next_event_s = 1e9


@dataclass
class Place:
    """What a router looks at of a pod."""

    number: int
    connections: int = 0
    turn: int = 0
    engine: Idle = field(default_factory=Idle)

    def __post_init__(self) -> None:
        self.engine.pod = self


def places(*connections: int) -> list[Pod]:
    return cast("list[Pod]", [Place(n + 1, open_) for n, open_ in enumerate(connections)])


def made(kind: RoutingKind, **more: Any) -> Router:
    return router(Routing(kind=kind, **more), random.Random(1))


def chosen(rule: Router, pods: list[Pod], times: int, every_s: float = 1.0) -> list[int]:
    """Numbers of the pods chosen; each gets a request that stays."""
    found = []
    for turn in range(times):
        pod = rule.choose(pods, turn * every_s)
        pod.connections += 1
        pod.turn = turn + 1
        found.append(pod.number)
    return found


def test_least_connections_fills_the_emptiest_and_takes_turns_among_equals() -> None:
    rule = made(RoutingKind.LEAST_CONNECTIONS)
    assert chosen(rule, places(2, 0, 1), 6) == [2, 3, 2, 1, 3, 2]


def test_least_connections_knows_what_has_ended_by_now() -> None:
    pods, rule = places(2, 2), made(RoutingKind.LEAST_CONNECTIONS)
    cast("Any", pods[0].engine).next_event_s = 5.0
    pods[0].turn, pods[1].turn = 9, 1
    assert rule.choose(pods, 4.9).number == 2
    assert rule.choose(pods, 5.0).number == 1


def test_stale_counts_are_read_again_only_when_they_are_old() -> None:
    rule = made(RoutingKind.STALE_LEAST_CONNECTIONS, age_s=5.0)
    assert chosen(rule, places(0, 4, 4), 6) == [1, 1, 1, 1, 1, 2]


def test_stale_counts_of_equals_take_turns() -> None:
    rule = made(RoutingKind.STALE_LEAST_CONNECTIONS, age_s=100.0)
    assert chosen(rule, places(0, 0, 7), 4) == [1, 2, 1, 2]


def test_round_robin_goes_on_where_it_was_though_pods_go() -> None:
    rule, pods = made(RoutingKind.ROUND_ROBIN), places(0, 0, 0, 0)
    assert chosen(rule, pods, 3) == [1, 2, 3]
    assert chosen(rule, pods[:2], 3) == [1, 2, 1]


@pytest.mark.parametrize("share", [0.2, 0.9])
def test_a_skewed_router_gives_the_oldest_its_share(share: float) -> None:
    rule = made(RoutingKind.SKEWED, share=share)
    counts = Counter(chosen(rule, places(0, 0, 0), 1000))
    assert counts[1] / 1000 == pytest.approx(share, abs=0.05)
    assert abs(counts[2] - counts[3]) <= 1


def test_random_treats_all_alike() -> None:
    counts = Counter(chosen(made(RoutingKind.RANDOM), places(0, 0, 0, 0), 4000))
    assert all(count / 4000 == pytest.approx(0.25, abs=0.03) for count in counts.values())


@pytest.mark.parametrize("kind", RoutingKind)
def test_one_pod_is_no_choice(kind: RoutingKind) -> None:
    assert chosen(made(kind), places(7), 3) == [1, 1, 1]
