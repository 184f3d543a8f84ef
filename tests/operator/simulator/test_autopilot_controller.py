from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from math import inf

from typing_extensions import override

from paceline_operator.api.v1alpha1 import Mode
from paceline_operator.autopilot.vocabulary.decision import Action, Knob
from paceline_operator.autopilot.vocabulary.policy import Policy
from paceline_operator.simulator.autopilot_controller import AutopilotController
from paceline_operator.simulator.fleet.faults import OperatorAway
from paceline_operator.simulator.request import Request
from paceline_operator.simulator.result import Result
from tests.operator.simulator.fleets import ITL, TTFT, engine, poisson, run

POLICY = Policy(
    objectives=(TTFT, ITL),
    scaling_mode=Mode.AUTO,
    min_replicas=1,
    max_replicas=6,
    down_window_s=60.0,
    batch_max=1024,
    batch_initial=512,
    max_num_seqs=32,
    cold_start_prior_s=25.0,
)


def steered(rate: float, seconds: float, law: AutopilotController, **more: object) -> Result:
    return run(poisson(rate, seconds), law, until_s=seconds, **more)


def test_constant_load_ends_in_a_fixed_point() -> None:
    law = AutopilotController(POLICY, kept_decisions=20)
    result = steered(4.0, 360.0, law, initial_replicas=3)
    late = [move for move in result.moves if move.time_s > 240.0]
    assert late == []
    assert result.samples[-1].desired < 3
    assert result.samples[-1].good >= 0.95 * result.samples[-1].ended
    assert all(d.action is Action.HOLD for d in law.decisions)


def test_a_load_too_high_for_one_orders_more() -> None:
    result = steered(30.0, 60.0, AutopilotController(POLICY), initial_replicas=1)
    out = result.of_knob(Knob.REPLICAS)
    assert out
    assert out[0].after > out[0].before
    assert out[0].reason
    assert result.samples[-1].ready > 1


class AtEachRound(AutopilotController):
    """Asked whenever engines were measured, as the operator asks."""

    @property
    @override
    def next_due_s(self) -> float:
        return -inf


def stepped() -> Iterator[Request]:
    """Three times the load from second 61 on: a surge shows between two looks of the loop."""
    yield from poisson(6.0, 61.0)
    yield from (later(each, 61.0) for each in poisson(24.0, 60.0, seed=2))


def later(request: Request, by_s: float) -> Request:
    return replace(request, arrival_s=round(request.arrival_s + by_s, 3))


def test_the_simulator_hears_the_law_as_soon_as_the_operator_does() -> None:
    laws = AutopilotController(POLICY, kept_decisions=200), AtEachRound(POLICY, kept_decisions=200)
    moves = [run(stepped(), law, until_s=121.0, initial_replicas=2).moves for law in laws]
    assert moves[0] == moves[1]
    assert list(laws[0].decisions) == list(laws[1].decisions)
    looks = [d.time_s for d in laws[0].decisions if d.knob is Knob.REPLICAS]
    assert min(b - a for a, b in pairwise(looks)) < 6.0


def test_a_restart_changes_nothing_but_what_is_measured_anew() -> None:
    law = AutopilotController(POLICY)
    steered(4.0, 62.0, law)
    before = law.memory
    law.restarted()
    assert law.memory == before
    assert law.last_tick is None


def test_a_fleet_goes_on_over_restarts() -> None:
    away = [OperatorAway(start_s=60.0, end_s=75.0), OperatorAway(start_s=110.0, end_s=110.0)]
    result = steered(4.0, 160.0, AutopilotController(POLICY), initial_replicas=2, faults=away)
    assert result.samples[-1].good >= 0.95 * result.samples[-1].ended
    assert result.cut == 0


def test_a_foreign_write_begins_the_cool_downs() -> None:
    law = AutopilotController(POLICY)
    law.disturbed(1234.0)
    expected = replace(AutopilotController(POLICY).memory, scaled_in_at_s=1234.0,
                       scaled_out_at_s=1234.0)  # fmt: skip
    assert law.memory == expected


def test_decisions_are_kept_only_as_far_as_wanted() -> None:
    law = AutopilotController(POLICY, kept_decisions=3)
    steered(2.5, 60.0, law)
    assert len(law.decisions) == 3
    assert law.decisions[-1].time_s > law.decisions[0].time_s


def test_paced_engines_size_their_steps_and_the_budget_stays() -> None:
    """Full steps of the budget would take twice the ITL target."""
    policy = replace(POLICY, is_paced=True)
    more = {"initial_replicas": 3, "engine": engine(max_num_batched_tokens=2048)}
    result = steered(6.0, 180.0, AutopilotController(replace(policy, batch_max=2048)), **more)
    late = [each for each in result.outcomes if each.arrival_s > 60.0]
    gaps = sum(each.gaps for each in late)
    assert sum(sum(each.late_gaps) for each in late) < 0.05 * gaps
    assert len(result.of_knob(Knob.BUDGET)) == 1
    assert result.samples[-1].budget == 2048
