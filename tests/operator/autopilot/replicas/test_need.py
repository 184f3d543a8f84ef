"""How many replicas the expected load needs, and of what each carries."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline_operator.api.v1alpha1 import SloMetric
from paceline_operator.autopilot.replicas.hit_shares import share_with
from paceline_operator.autopilot.replicas.need import need
from paceline_operator.autopilot.situation.situation import Situation, understand
from tests.operator.autopilot.replicas.test_capacity_evidence import NOW, capacity_rps
from tests.operator.autopilot.replicas.test_hit_shares import at, finding


def surged(s: Situation) -> Situation:
    """Six times as much is expected as those replicas carry."""
    return replace(s, demand=replace(s.demand, forecast_rps=24 * capacity_rps()))


KNOWN = (at(2, 0.9), at(4, 0.6))


def test_more_replicas_are_needed_than_if_they_found_as_much() -> None:
    alike = need(surged(finding(0.6)), feasible=True)
    fewer = need(surged(finding(0.6, *KNOWN)), feasible=True)
    assert alike.hit_share == pytest.approx(0.6)
    assert fewer.hit_share == pytest.approx(share_with(finding(0.6, *KNOWN), fewer.wanted))
    assert fewer.wanted > alike.wanted > 4


def test_fewer_replicas_do_where_they_find_more() -> None:
    alike = need(finding(0.6, use=0.4), feasible=True)
    more = need(finding(0.6, *KNOWN, use=0.4), feasible=True)
    assert more.hit_share is not None
    assert more.hit_share > 0.6
    assert more.keep <= alike.keep
    assert more.capacity_rps is not None
    assert alike.capacity_rps is not None
    assert more.capacity_rps > alike.capacity_rps


@pytest.mark.parametrize("ttft_ms", [60, 90, 120, 150, 200, 300])
def test_a_size_at_which_a_target_is_lost_is_none_to_reckon_with(ttft_ms: int) -> None:
    """No such size makes capacity out of nothing, nor ends the tick."""
    s = surged(finding(0.6, at(2, 0.95), at(4, 0.6)))
    targets = tuple(
        replace(each, target_ms=ttft_ms) if each.metric is SloMetric.TTFT else each
        for each in s.policy.objectives
    )
    given = replace(s.policy, objectives=targets)
    then = replace(understand(given, s.fleet, s.memory, NOW), demand=s.demand)
    found = need(then, feasible=True)
    assert found.wanted >= 4 or found.capacity_rps is None
    if found.model_rps is not None and then.capacity is not None:
        assert found.model_rps <= then.capacity[0]
