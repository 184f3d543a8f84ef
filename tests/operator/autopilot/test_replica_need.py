"""How many replicas the expected load needs, and of what each carries."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline_operator.autopilot.replica_need import need
from paceline_operator.autopilot.situation import Situation
from tests.operator.autopilot.test_capacity_evidence import capacity_rps
from tests.operator.autopilot.test_hit_shares import at, finding


def surged(s: Situation) -> Situation:
    """Six times as much is expected as those replicas carry."""
    return replace(s, demand=replace(s.demand, forecast_rps=24 * capacity_rps()))


def test_more_replicas_are_needed_than_if_they_found_as_much() -> None:
    alike = need(surged(finding(0.6)), feasible=True)
    fewer = need(surged(finding(0.6, at(2, 0.9), at(4, 0.6))), feasible=True)
    assert alike.hit_share == pytest.approx(0.6)
    assert fewer.hit_share == pytest.approx(0.3 + 1.2 / fewer.wanted, abs=0.03)
    assert fewer.wanted > alike.wanted > 4


def test_fewer_replicas_do_where_they_find_more() -> None:
    alike = need(finding(0.6, use=1.2), feasible=True)
    more = need(finding(0.6, at(2, 0.9), at(4, 0.6), use=1.2), feasible=True)
    assert more.hit_share is not None
    assert more.hit_share > 0.6
    assert more.keep <= alike.keep
    assert more.capacity_rps is not None
    assert alike.capacity_rps is not None
    assert more.capacity_rps > alike.capacity_rps
