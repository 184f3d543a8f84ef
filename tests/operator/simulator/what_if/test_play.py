"""Runs whose outcome is known beforehand."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from paceline_operator.simulator.request import Request
from paceline_operator.simulator.what_if.figures import Figures
from paceline_operator.simulator.what_if.lead_in import led_in
from paceline_operator.simulator.what_if.play import Stage, play
from tests.operator.simulator import fleets
from tests.operator.simulator.what_if.build import PROFILE, facts, spec

SPAN_S, LEAD_S = 300.0, 200.0


def played(rate: float, seed: int = 1, **more: Any) -> Figures:
    load = list(fleets.poisson(rate, SPAN_S, prompt=1500, output=150))
    return play(
        Stage(spec=spec(**more), facts=facts()),
        led_in(lambda: iter(load), LEAD_S),
        lead_s=LEAD_S,
        span_s=SPAN_S,
        generator=random.Random(seed),
        at=lambda time_s: None,
    )


def test_a_load_that_one_replica_holds() -> None:
    found = played(1.0)
    assert found.replicas_mean == 1.0
    assert found.replica_hours == SPAN_S / 3600
    assert all(share is not None and share > 0.99 for share in found.attained)
    assert found.replica_moves == 0


def test_a_load_that_one_replica_does_not_hold_takes_more_or_is_late() -> None:
    free = played(12.0)
    bound = played(12.0, scaling={"mode": "Off"})
    assert free.replicas_mean > 2.0
    assert free.goodput is not None
    assert free.goodput > 0.95
    assert bound.replicas_mean == 1.0
    assert bound.goodput is not None
    assert bound.goodput < 0.5
    assert bound.refused + bound.unserved + bound.late > 0.5 * bound.requests


def test_what_the_law_says_of_feasibility_is_kept() -> None:
    hopeless = [{"name": "first-token", "metric": "TTFT", "targetMs": 60}]
    found = played(1.0, slos=hopeless)
    assert found.infeasible_share == 1.0
    assert "the TTFT target is 60 ms. More replicas cannot help." in found.infeasible_message
    assert (played(1.0).infeasible_share, played(1.0).infeasible_message) == (0.0, "")


def test_more_than_the_replicas_allowed_hold_is_said_with_the_limit() -> None:
    found = played(12.0, scaling={"minReplicas": 1, "maxReplicas": 1})
    assert 0.5 < found.infeasible_share <= 1.0
    assert "maxReplicas is 1" in found.infeasible_message


def test_equal_chance_gives_equal_figures() -> None:
    assert played(3.0, seed=5) == played(3.0, seed=5)


def requests(
    *given: tuple[float, int], at: Callable[[float], None] = lambda _: None, **more: Any
) -> Figures:
    """Single requests by arrival and answer, on a fleet of two."""
    load = [Request(arrival_s, 1000, output) for arrival_s, output in given]
    off = {"mode": "Off", "minReplicas": 1, "maxReplicas": 4}
    return play(
        Stage(spec=spec(replicas=2, scaling=off, **more), facts=facts()),
        led_in(lambda: iter(load), LEAD_S),
        lead_s=LEAD_S,
        span_s=SPAN_S,
        generator=random.Random(1),
        at=at,
    )


def test_a_quiet_end_is_paid_for_too() -> None:
    found = requests((0.0, 10), (9.0, 10))
    assert found.requests == 2
    assert found.replica_hours == pytest.approx(2 * SPAN_S / 3600)
    assert (found.refused, found.unserved, found.replicas_mean) == (0, 0, 2.0)


def test_an_answer_beyond_the_end_is_whole_and_costs_nothing_more() -> None:
    short, long = requests((299.0, 10)), requests((299.0, 5000))
    assert (long.requests, long.unserved) == (1, 0)
    assert long.replica_hours == short.replica_hours == pytest.approx(2 * SPAN_S / 3600)


def test_how_far_it_has_come_is_told_while_nothing_is_sent_too() -> None:
    heard_s: list[float] = []
    requests((0.0, 10), (299.0, 5000), at=heard_s.append)
    assert heard_s == sorted(heard_s)
    assert heard_s[0] == 0.0
    assert max(after - before for before, after in pairwise(heard_s)) <= 15.0
    assert heard_s[-1] > LEAD_S + SPAN_S + 10.0


@pytest.mark.parametrize(("max_model_len", "refused"), [(1000, 2), (1001, 0)])
def test_requests_that_no_replica_ever_takes_are_counted(max_model_len: int, refused: int) -> None:
    engine = {"device": {"type": "Simulated", "profile": PROFILE}, "maxModelLen": max_model_len}
    found = requests((0.0, 1), (250.0, 1), engine=engine)
    assert (found.requests, found.refused, found.never_served) == (2, refused, refused)
