"""Failure modes of the live knobs; numbers are those of docs/failure-modes.md.

With one budget for all steps, but where `paced` says that engines size each by themselves.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from paceline_operator.api.v1alpha1 import Mode, SloMetric
from paceline_operator.autopilot.knobs import margin
from paceline_operator.autopilot.plant.ladder import RUNG_SHARE
from paceline_operator.autopilot.plant.plant import TRUSTED_SD, build_plant
from paceline_operator.autopilot.plant.prior import prior_of
from paceline_operator.autopilot.plant.workload import observe
from paceline_operator.autopilot.replicas.capacity_evidence import LEAST_FACTOR, MOST_FACTOR
from paceline_operator.autopilot.vocabulary.decision import Knob, Reason
from paceline_operator.autopilot.vocabulary.memory import Memory
from paceline_operator.autopilot.vocabulary.policy import Objective
from paceline_operator.simulator.fleet.faults import PushesLost, StepsSlower, ValuesKept
from paceline_operator.simulator.loads.rates import Constant
from paceline_operator.simulator.run import simulate
from tests.operator.simulator.fleets import Nothing
from tests.operator.simulator.scenario import (
    SMALL,
    Moment,
    Run,
    Service,
    chat,
    lengths,
    play,
)

STEP_S, SLOWER = 6 * 3600.0, 1.25
A100 = Service(
    profile=SMALL, law=None, ttft_ms=2000, itl_ms=50, ceiling=8192, replicas=1, most=1
)  # fmt: skip
STALL = Objective(name="stall", metric=SloMetric.ITL, target_ms=3 * A100.itl_ms)
"""Only clients look at it, by it nothing is steered."""
BY_BUDGET = {"is_paced": False}
WATCHED = replace(A100, fleet={"objectives": (*A100.objectives, STALL)}, policy=BY_BUDGET)
VALLEY = chat(Constant(rps=3.5, duration_s=240.0), lengths(1000, 230))
FIXED = {"scaling_mode": Mode.OFF, **BY_BUDGET}
PACED = {"scaling_mode": Mode.OFF, "is_paced": True}


def true_cap(moment: Moment, service: Service, slower: float = 1.0) -> int:
    """Largest budget by the law that the engines really follow."""
    law, work = service.config().engine.law, observe(moment.seen)
    rows, kv = round(work.rows_p95), round(work.kv_p95)
    return max(
        budget
        for budget in range(16, service.ceiling + 1, 16)
        if slower * law.step_ms(max(0, budget - rows), rows, kv, 0) <= service.itl_ms
    )


def stalled(late_gaps: Iterable[tuple[int, ...]]) -> int:
    """Gaps longer than the longest of the targets."""
    return sum(late[-1] for late in late_gaps if late)


@pytest.mark.parametrize("seed", [1, 2])
def test_01_p95_is_fine_at_a_huge_budget(seed: int) -> None:
    run = play(WATCHED, VALLEY, seed=seed)
    assert set(run.budgets(30.0)) <= set(range(512, 641))
    late = [o.late_gaps for o in run.result.outcomes if o.arrival_s >= 30.0]
    assert len(late) > 500
    assert stalled(late) == 0
    # The same load at the budget it began with: nobody would be told by p95.
    fixed = simulate(
        VALLEY.requests(random.Random(seed)), WATCHED.config(), Nothing(),
        generator=random.Random(seed), until_s=VALLEY.duration_s,
    )  # fmt: skip
    gaps = sum(o.gaps for o in fixed.outcomes)
    assert sum(o.late_gaps[0] for o in fixed.outcomes if o.late_gaps) < 0.05 * gaps
    assert stalled([o.late_gaps for o in fixed.outcomes]) > 100


def test_01_paced_engines_need_no_budget_for_it() -> None:
    run = play(replace(WATCHED, policy={}), VALLEY)
    assert set(run.budgets(30.0)) == {WATCHED.ceiling}
    late = [o.late_gaps for o in run.result.outcomes if o.arrival_s >= 30.0]
    assert len(late) > 500
    assert stalled(late) == 0


def test_10_steps_take_half_as_long_again() -> None:
    service = Service(replicas=4, most=4, policy={**FIXED, "replicas": 4})
    start_s = 400.0
    run = play(
        service,
        chat(Constant(rps=1.2, duration_s=900.0)),
        faults=[StepsSlower(start_s=start_s, factor=1.5)],
    )
    before = run.budgets(start_s - 10.0, start_s)[-1]
    ticks = [m for m in run.moments(start_s + 5.0) if m.decisions(Knob.BUDGET)]
    fifth = ticks[4]
    cap = true_cap(fifth, service, 1.5)
    assert cap < before
    assert run.budgets(fifth.time_s, fifth.time_s + 5.0)[-1] <= cap
    factors = [m.tick.memory.capacity_factor for m in run.moments()]
    assert min(factors) > LEAST_FACTOR
    assert max(factors) < MOST_FACTOR
    assert max(m.tick.memory.margin for m in run.moments()) < margin.MOST
    assert run.reversals(Knob.BUDGET) <= 3


def test_10_paced_engines_see_by_themselves_that_steps_take_longer() -> None:
    service = Service(replicas=4, most=4, policy={**PACED, "replicas": 4})
    start_s = 400.0
    run = play(
        service,
        chat(Constant(rps=1.2, duration_s=900.0)),
        faults=[StepsSlower(start_s=start_s, factor=1.5)],
    )
    after = [o for o in run.result.outcomes if o.arrival_s >= start_s + 30.0]
    late = sum(o.late_gaps[0] for o in after if o.late_gaps)
    assert late <= 0.05 * sum(o.gaps for o in after)
    factors = [m.tick.memory.capacity_factor for m in run.moments()]
    assert LEAST_FACTOR < min(factors) <= max(factors) < MOST_FACTOR
    assert max(m.tick.memory.margin for m in run.moments()) < margin.MOST
    assert set(run.budgets(30.0)) == {service.ceiling}


def after_hours(policy: dict[str, Any]) -> Run:
    """Six hours of the same load, then steps take a quarter longer; looked at every 10 s.

    A quarter moves the true cap by just more than two rungs: to stay is as wrong as to leap.
    """
    return play(
        Service(
            replicas=2, most=2, policy={**policy, "replicas": 2},
            fleet={"scrape_interval_s": 10.0},
        ),
        chat(Constant(rps=0.4, duration_s=STEP_S + 300.0), lengths(1600, 20)),
        faults=[StepsSlower(start_s=STEP_S, factor=SLOWER)],
    )  # fmt: skip


def stays_trusted(run: Run) -> None:
    """The law is known well all the time, and by evidence that does not pile up."""
    policy = run.service.law_policy()
    for moment in run.moments(600.0)[::40]:
        memory = moment.tick.memory
        plant = build_plant(memory, prior_of(policy.profile), observe(moment.seen))
        assert plant.uncertainty(memory.acknowledged_budget) <= TRUSTED_SD
        # Evidence fades by 0.99 a slice: never more than of a hundred slices.
        assert memory.prefill_fit.steps <= 100 * 10.0 * 1e3 / 60.0


def test_11_six_hours_of_the_same_load_then_a_step() -> None:
    run = after_hours(FIXED)
    stays_trusted(run)
    first = run.moves(Knob.BUDGET, STEP_S)[0]
    cap = true_cap(run.moments(first.time_s)[0], run.service, SLOWER)
    two_rungs = (1.0 + RUNG_SHARE) ** 2
    assert first.before > cap * (1.0 + RUNG_SHARE)
    assert first.time_s <= STEP_S + 120.0
    assert cap / two_rungs <= first.after <= cap * two_rungs


def test_11_two_minutes_after_a_larger_step() -> None:
    """The first move may fall short of it then: twelve prompts a minute are all that tells."""
    step_s = 2 * 3600.0
    run = play(
        Service(replicas=2, most=2, policy={**FIXED, "replicas": 2}),
        chat(Constant(rps=0.4, duration_s=step_s + 300.0), lengths(1600, 20)),
        faults=[StepsSlower(start_s=step_s, factor=1.4)],
    )
    *_, last = [m for m in run.moves(Knob.BUDGET, step_s) if m.time_s <= step_s + 120.0]
    cap = true_cap(run.moments(last.time_s)[0], run.service, 1.4)
    two_rungs = (1.0 + RUNG_SHARE) ** 2
    assert cap / two_rungs <= last.after <= cap * two_rungs


def test_11_paced_engines_after_six_hours_of_the_same_load() -> None:
    run = after_hours(PACED)
    stays_trusted(run)
    assert max(m.tick.memory.margin for m in run.moments()) < margin.MOST
    told, *moves = run.moves(Knob.STEP_TIME)
    itl_us = 1e3 * run.service.itl_ms
    assert all(0.5 * itl_us <= move.after <= itl_us for move in (told, *moves))
    assert all(abs(move.after / move.before - 1.0) <= 0.05 for move in moves)
    late = [o for o in run.result.outcomes if o.arrival_s >= STEP_S + 30.0]
    assert sum(o.late_gaps[0] for o in late if o.late_gaps) <= 0.05 * sum(o.gaps for o in late)


def with_pushes_lost(policy: dict[str, Any], lost: float) -> tuple[Service, Run]:
    service = Service(replicas=4, most=4, policy={**policy, "replicas": 4})
    load = chat(Constant(rps=1.0, duration_s=240.0))
    return service, play(service, load, faults=[PushesLost(start_s=0.0, probability=lost)])


def with_values_kept(policy: dict[str, Any]) -> tuple[Service, Run]:
    service = Service(replicas=2, most=2, policy={**policy, "replicas": 2})
    load = chat(Constant(rps=0.7, duration_s=600.0))
    return service, play(service, load, faults=[ValuesKept(start_s=0.0, pods=frozenset({1}))])


@pytest.mark.parametrize("lost", [0.3])
def test_13_pushes_fail_now_and_then(lost: float) -> None:
    service, run = with_pushes_lost(FIXED, lost)
    reports = [p.tunables for p in run.moments()[-1].seen.pods if p.tunables]
    assert {r.effective for r in reports} == {run.budgets()[-1]}
    assert run.budgets()[-1] < service.ceiling
    assert run.result.pushes > 4


@pytest.mark.parametrize("lost", [0.3])
def test_13_pushes_to_paced_engines_fail_now_and_then(lost: float) -> None:
    _, run = with_pushes_lost(PACED, lost)
    last = run.moments()[-1].seen
    assert last.desired_tunables is not None
    told_ms = last.desired_tunables.step_time_target_ms
    assert told_ms is not None
    assert {p.tunables.step_time_target_ms for p in last.pods if p.tunables} == {told_ms}
    assert run.result.pushes > 4


def test_13_an_engine_accepts_and_ignores_a_step_time() -> None:
    _, run = with_values_kept(PACED)
    last = run.moments()[-1]
    reports = {p.uid: p.tunables for p in last.seen.pods if p.tunables}
    assert reports["uid-1"].step_time_target_ms is None
    assert reports["uid-2"].step_time_target_ms is not None
    # 1, 2, 4, ... 60 s apart, for each revision anew; not once a second.
    told = [d for d in run.decisions(Knob.STEP_TIME) if d.applied]
    assert run.result.pushes <= 20 * len(told)
    # What that engine does to ITL moves neither the others' target nor the margin.
    assert len(told) == 1
    assert last.tick.memory.margin == Memory().margin


def test_13_an_engine_accepts_and_ignores() -> None:
    service, run = with_values_kept(FIXED)
    last = run.moments()[-1]
    reports = {p.uid: p.tunables for p in last.seen.pods if p.tunables}
    assert reports["uid-1"].effective == service.ceiling
    assert reports["uid-2"].effective == run.budgets()[-1] < service.ceiling
    # 1, 2, 4, ... 60 s apart, for each revision anew; not once a second.
    assert run.result.pushes <= 20 * len(run.moves(Knob.BUDGET))
    # What that engine does to ITL moves neither the others' budget nor the margin.
    assert len(run.moves(Knob.BUDGET)) <= 2
    assert last.tick.memory.margin <= 0.15
    reasons = {d.reason for d in run.decisions(Knob.BUDGET)}
    assert Reason.ITL_UNEXPLAINED not in reasons
