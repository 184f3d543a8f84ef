"""What keeps replicas from swinging: known bursts, a recent scale-in, late tokens of fewer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from paceline_operator.api.v1alpha1 import Mode
from paceline_operator.autopilot.replicas.loop import run
from paceline_operator.autopilot.replicas.regret import REMEMBERED_S, TURN_S
from paceline_operator.autopilot.situation.situation import Situation, understand
from paceline_operator.autopilot.vocabulary.decision import Decision, Reason
from paceline_operator.autopilot.vocabulary.memory import Bursts, Recommendation, Regret
from tests.operator.autopilot.replicas.test_capacity_evidence import (
    NOW,
    capacity_rps,
    found_in_caches,
    served,
)


def loaded(use: float, good: float, *, surging: bool = False, **memory: Any) -> Situation:
    """Two replicas that carry so much of what they can, so much of it in time."""
    s = served(2 * use * capacity_rps(), good)
    demand = replace(s.demand, surging=surging)
    return replace(s, demand=demand, memory=replace(s.memory, **memory))


def decided(s: Situation) -> Decision:
    (decision,) = run(s, feasible=True).decisions
    return decision


def test_a_scale_in_is_not_taken_back_for_a_little_more() -> None:
    lately = loaded(1.0, 0.97, scaled_in_at_s=NOW - TURN_S + 1, scaled_in_from=3)
    assert decided(lately).reason is Reason.COOLDOWN
    assert "last scale-in was 599 s ago" in decided(lately).message
    long_ago = loaded(1.0, 0.97, scaled_in_at_s=NOW - TURN_S, scaled_in_from=3)
    assert decided(long_ago).after == 3


@pytest.mark.parametrize(("use", "good"), [(1.3, 0.97), (1.0, 0.5)])
def test_it_is_for_much_more_or_where_objectives_are_missed(use: float, good: float) -> None:
    assert decided(loaded(use, good, scaled_in_at_s=NOW - 60, scaled_in_from=3)).after >= 3


def test_a_squeeze_is_answered_however_recent_the_last_scale_in_is() -> None:
    """Objectives hold only because sequences wait: what was given back is missing."""
    kept = decided(loaded(1.0, 0.97, scaled_in_at_s=NOW - 60, scaled_in_from=3))
    assert kept.reason is Reason.COOLDOWN
    squeezed = loaded(
        1.0, 0.97, scaled_in_at_s=NOW - 60, scaled_in_from=3, squeezed_seqs=64, squeezed_replicas=2
    )
    assert decided(squeezed).after == 3


def surging(times: float, **memory: Any) -> Situation:
    """So many times what two replicas carry is expected."""
    s = loaded(1.0, 1.0, surging=True, **memory)
    return replace(s, demand=replace(s.demand, forecast_rps=2 * times * capacity_rps()))


def test_a_surge_like_those_that_came_for_nothing_waits() -> None:
    known = Bursts(lasted_s=35.0, lasted_at_s=NOW - 300)
    waits = decided(surging(1.8, bursts=known))
    assert (waits.reason, waits.after) == (Reason.COOLDOWN, 2)
    assert "Surges of up to 35 s were over before replicas served" in waits.message
    lasts = replace(known, since_s=NOW - 50, before=2)
    assert decided(surging(1.8, bursts=lasts)).after == 4
    assert decided(surging(1.8)).after == 4


def test_one_replica_more_is_not_waited_for() -> None:
    known = Bursts(lasted_s=35.0, lasted_at_s=NOW - 300)
    found = decided(surging(1.3, bursts=known))
    assert (found.reason, found.after) == (Reason.DEMAND_FORECAST, 3)


IDLE = {
    "recommended": (Recommendation(time_s=NOW - 15, replicas=1),),
    "recommending_since_s": NOW - 600,
}


@pytest.mark.parametrize(("good", "after"), [(1.0, 1), (0.9992, 1), (0.985, 2)])
@pytest.mark.parametrize("shares", [(0.8, 0.8), (0.8, 0.6)])
def test_no_replica_leaves_where_fewer_would_spend_what_may_be_late(
    good: float, after: int, shares: tuple[float, float]
) -> None:
    """Nor where prompts cost more now: what was late then is the least that is late now."""
    found = decided(found_in_caches(loaded(0.4, good, **IDLE), shares))
    assert found.after == after, found.message
    if after == 2:
        assert found.reason is Reason.TTFT_QUEUE
        assert "1 would spend 780 % of what may be late" in found.message


def test_as_many_leave_as_those_left_can_be_late_for() -> None:
    """Five of twenty might go by the model: 1 % late becomes 3.9 % with 15, 3.5 are aimed at."""
    s = served(20 * 0.5 * capacity_rps(), 0.99, pods=20)
    s = replace(s, memory=replace(s.memory, **IDLE), policy=replace(s.policy, max_replicas=20))
    found = decided(s)
    assert (found.reason, found.after) == (Reason.DEMAND_LOW, 16), found.message
    assert 0.01 * (20 / 15) ** 4.7 > 0.7 * 0.05 >= 0.01 * (20 / 16) ** 4.7


@pytest.mark.parametrize(("limits", "after"), [({"max_replicas": 1}, 1), ({"min_replicas": 4}, 4)])
def test_what_a_limit_moves_is_remembered_as_a_move(limits: dict[str, int], after: int) -> None:
    s = loaded(0.4, 1.0)
    outcome = run(replace(s, policy=replace(s.policy, **limits)), feasible=True)
    (decision,) = outcome.decisions
    assert decision.after == after
    moved = outcome.memory.scaled_in_at_s if after == 1 else outcome.memory.scaled_out_at_s
    assert moved == NOW


def test_what_users_take_away_is_no_scale_in_of_our_own() -> None:
    s = loaded(0.4, 1.0, scaled_in_from=3, scaled_in_rps=1.0)
    fewer = run(replace(s, policy=replace(s.policy, max_replicas=1)), feasible=True).memory
    assert (fewer.scaled_in_at_s, fewer.scaled_in_from) == (NOW, 0)
    back = loaded(1.0, 0.97, scaled_in_at_s=NOW - 60, scaled_in_from=0)
    assert decided(back).after == 3
    assert run(back, feasible=True).memory.regret is None


@pytest.mark.parametrize(("least", "peak"), [(1, 1), (4, 1)])
def test_a_minimum_is_not_remembered_as_a_demand(least: int, peak: int) -> None:
    """Else it would outlast its end by a down window."""
    s = loaded(0.2, 1.0)
    s = replace(s, policy=replace(s.policy, min_replicas=least))
    s = replace(s, fleet=replace(s.fleet, desired_replicas=max(2, least)))
    found = run(s, feasible=True).memory.recommended
    assert [each.replicas for each in found] == [peak]


@pytest.mark.behaviour(
    "an installation that allows no moves any more leaves replicas what they are",
    report="maxMode Recommend took every fleet in Auto to spec.replicas, one by default",
)
@pytest.mark.parametrize("mode", [Mode.RECOMMEND, Mode.OFF])
@pytest.mark.parametrize(
    ("changed_s", "asked", "after"), [(NOW - 900, 1, 2), (NOW - 60, 1, 1), (NOW - 60, 5, 5)]
)
def test_where_the_installation_lowers_the_mode_only_what_is_asked_since_is_followed(
    mode: Mode, changed_s: float, asked: int, after: int
) -> None:
    s = loaded(1.0, 1.0, capped_since_s=NOW - 300, manual_since_s=changed_s)
    s = replace(s, policy=replace(s.policy, replicas=asked, scaling_mode=mode, is_braked=True))
    (decision,) = run(s, feasible=True).decisions
    applied = decision.after if decision.applied else decision.before
    assert applied == after, decision.message


def test_under_the_brake_not_even_a_minimum_moves_a_fleet() -> None:
    s = loaded(1.0, 1.0, capped_since_s=NOW - 300)
    policy = replace(s.policy, min_replicas=4, scaling_mode=Mode.RECOMMEND, is_braked=True)
    (decision,) = run(replace(s, policy=policy), feasible=True).decisions
    assert not decision.applied, decision.message


def expected_rps(use: float) -> float:
    return loaded(use, 1.0).demand.forecast_rps


@pytest.mark.parametrize(
    ("times", "since_s", "is_regretted"),
    [(1.0, 60.0, True), (1.3, 60.0, False), (1.0, TURN_S, False)],
)
def test_a_scale_in_that_is_taken_back_at_its_load_is_remembered(
    times: float, since_s: float, is_regretted: bool
) -> None:
    before_rps = expected_rps(1.3) / times
    s = loaded(1.3, 0.97, scaled_in_at_s=NOW - since_s, scaled_in_from=3, scaled_in_rps=before_rps)
    outcome = run(s, feasible=True)
    (decision,) = outcome.decisions
    assert decision.after >= 3
    regret = Regret(at_s=NOW, replicas=3, rps=before_rps)
    assert outcome.memory.regret == (regret if is_regretted else None)


@pytest.mark.parametrize(
    ("less", "since_s", "after"),
    [(1.0, 60.0, 2), (1.05, 60.0, 2), (1.15, 60.0, 1), (1.0, REMEMBERED_S, 1)],
)
def test_it_is_not_made_again_at_about_that_load(less: float, since_s: float, after: int) -> None:
    known = Regret(at_s=NOW - since_s, replicas=2, rps=less * expected_rps(0.4))
    found = decided(loaded(0.4, 1.0, **IDLE, regret=known))
    assert found.after == after, found.message
    if after == 2:
        assert found.reason is Reason.DOWN_WINDOW
        assert "so few were too few at such a load lately" in found.message


def test_an_idle_fleet_still_tells_what_is_known_of_its_engines() -> None:
    """`what-if` plays with the KV capacity that the live fleet had, asked or not."""
    busy = loaded(0.4, 1.0)
    pods = tuple(replace(each, kv_capacity_tokens=11_648) for each in busy.fleet.pods)
    seen = replace(busy.fleet, pods=pods, slices=())
    idle = understand(busy.policy, seen, busy.memory, NOW)
    assert not idle.has_traffic
    found = decided(idle)
    known = decided(busy).inputs
    assert found.inputs["kvCapacityTokens"] == 11_648
    assert found.inputs.get("capacityRps") is None
    for name in ("prefillBaseMs", "prefillPerPromptTokenMs", "decodeBaseMs"):
        assert found.inputs[name] == known[name]
