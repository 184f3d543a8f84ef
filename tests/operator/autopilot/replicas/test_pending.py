"""What waits asks for replicas only if it would still wait when they serve."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline_operator.autopilot.demand.forecast import Demand
from paceline_operator.autopilot.replicas.limits import condition, limits
from paceline_operator.autopilot.replicas.pending import SHORTEST_DRAIN_S, backlog_rps, coming
from paceline_operator.autopilot.situation.situation import Situation
from paceline_operator.autopilot.vocabulary.decision import Reason
from tests.operator.autopilot.build import pod
from tests.operator.autopilot.replicas.test_capacity_evidence import capacity_rps, served


def waiting(requests: int, use: float, cold_start_s: float) -> Situation:
    """Two pods with so many requests each, and so much of what they carry offered."""
    offered_rps = 2 * use * capacity_rps()
    s = served(offered_rps, 1.0, waiting=requests)
    return replace(s, demand=Demand(now_rps=offered_rps), cold_start_s=cold_start_s)


def test_without_room_all_beyond_the_usual_queue_is_backlog() -> None:
    usual = 0.5 * 2 * capacity_rps()
    assert backlog_rps(waiting(200, 1.0, 60.0)) == pytest.approx((400 - usual) / 120.0, rel=1e-6)
    assert backlog_rps(waiting(0, 1.0, 60.0)) == 0.0


def test_what_the_fleet_clears_before_a_replica_serves_is_none() -> None:
    """With half of the capacity free it clears as much as it carries in half of a cold start."""
    cleared = 0.5 * 2 * capacity_rps() * 60.0
    usual = 0.5 * 2 * capacity_rps()
    left = 400 - usual - cleared
    assert left > 0
    assert backlog_rps(waiting(200, 0.5, 60.0)) == pytest.approx(left / 120.0, rel=1e-6)
    assert backlog_rps(waiting(50, 0.5, 60.0)) == 0.0


def test_a_short_cold_start_drains_no_faster_than_the_least() -> None:
    usual = 0.5 * 2 * capacity_rps()
    found = backlog_rps(waiting(200, 1.0, 5.0))
    assert found == pytest.approx((400 - usual) / SHORTEST_DRAIN_S, rel=1e-6)


@pytest.mark.behaviour(
    "a pod that crashes again and again keeps no other from leaving",
    report="each crash after a moment of service made it a replica that starts, for 13 minutes",
)
@pytest.mark.parametrize(
    ("crashed_s", "looping", "is_coming"),
    [(10.0, False, True), (10.0, True, False), (1000.0, False, False)],
)
def test_a_replica_that_starts_is_waited_for_unless_it_is_late_or_in_a_crash_loop(
    crashed_s: float, looping: bool, is_coming: bool
) -> None:
    s = waiting(0, 0.2, 400.0)
    created_s, now_s = s.now_s - 86_400.0, s.now_s
    crashed = pod(9, ready=False, ready_since_s=None, created_s=created_s, looping=looping,
                  unready_since_s=now_s - crashed_s)  # fmt: skip
    pods = (*s.fleet.pods, crashed)
    s = replace(s, fleet=replace(s.fleet, pods=pods, desired_replicas=len(pods)))
    assert coming(s) is is_coming
    limit = condition(s, limits(s), None)
    assert (limit is not None and limit.reason is Reason.PENDING_STUCK) is not is_coming
