"""Runs one cell of the evaluation and scores it."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import replace
from math import inf

from bench.conformance.bars import ATTAINMENT, UNBOUND_ORACLE
from bench.conformance.cell import Cell, Score
from bench.conformance.contestants import (
    Contest,
    controller,
    first_replicas,
    starts_tuned,
    step_budget,
)
from bench.conformance.load_case import ITL_NAME, TTFT_NAME, LoadCase
from bench.conformance.tuning import Tuning
from paceline_operator.autopilot.vocabulary.decision import Knob
from paceline_operator.simulator.engine_config import EngineConfig
from paceline_operator.simulator.fleet.fleet_config import FleetConfig
from paceline_operator.simulator.queue_limits import by_objectives
from paceline_operator.simulator.result import Result, recovery_s
from paceline_operator.simulator.run import simulate
from paceline_operator.simulator.scoring.outcome import Outcome
from paceline_operator.simulator.scoring.score import overall, worst_window
from paceline_operator.simulator.scoring.yardstick import Yardstick

LONGEST_PROMPT = 262_144
_ROUTER_SEED = 7919


def run_cell(cell: Cell, case: LoadCase, tuning: Tuning) -> Score:
    """Runs it.

    Args:
        cell: Which.
        case: Its load.
        tuning: What hindsight knows of the load.
    """
    started_s = time.monotonic()
    contest = Contest(
        case=case,
        tuning=tuning,
        cold_start_s=cell.cold_start_s,
        seed=cell.seed,
    )
    budget = tuning.budget if starts_tuned(cell.policy) else None
    starts_s = 0.0 if cell.policy == UNBOUND_ORACLE else float(cell.cold_start_s)
    ready = first_replicas(cell.policy, tuning)
    fleet = fleet_config(case, starts_s, initial_replicas=ready, budget=budget)
    engine = replace(fleet.engine, step_budget=step_budget(cell.policy))
    result = simulate(
        case.play(random.Random(cell.seed)),
        replace(fleet, engine=engine),
        controller(cell.policy, cell.setting, contest),
        generator=random.Random(cell.seed + _ROUTER_SEED),
        faults=case.faults,
    )
    return scored(result, case, cell.cold_start_s, time.monotonic() - started_s)


def fleet_config(
    case: LoadCase, cold_start_s: float, *, initial_replicas: int, budget: int | None
) -> FleetConfig:
    """The fleet of a load.

    Args:
        case: The load.
        cold_start_s: From a pod made to one that serves.
        initial_replicas: Ready at the beginning.
        budget: Engines start with, None for their ceiling.
    """
    service, profile = case.service, case.service.accelerator
    ceiling = service.max_num_batched_tokens
    engine = EngineConfig(
        law=profile.law,
        num_kv_blocks=profile.kv_capacity_tokens // 16,
        max_model_len=LONGEST_PROMPT,
        max_num_batched_tokens=ceiling,
        max_num_seqs=service.max_num_seqs,
        initial_batched_tokens=ceiling if budget is None else min(ceiling, budget),
        initial_running_seqs=service.max_num_seqs,
        queue_limits_s=by_objectives(service.objectives),
    )
    return FleetConfig(
        engine=engine,
        objectives=service.objectives,
        initial_replicas=initial_replicas,
        cold_start_s=cold_start_s,
    )


def scored(result: Result, case: LoadCase, cold_start_s: float, wall_s: float) -> Score:
    """What is told of a run."""
    objectives = {each.name: each for each in case.service.objectives}
    yardstick = Yardstick(case.service.objectives)
    outcomes = [each for each in result.outcomes if each.tier == "interactive"]

    def share(name: str) -> float:
        return overall(outcomes, lambda each: yardstick.samples(objectives[name], each)).share

    replicas, budgets = result.of_knob(Knob.REPLICAS), result.of_knob(Knob.BUDGET)
    stretches = _settled(outcomes, case, cold_start_s)
    worst = [worst_window(each, yardstick.goodput) for each in stretches]
    return Score(
        requests=len(result.outcomes),
        attainment=overall(outcomes, yardstick.goodput).share,
        ttft_attainment=share(TTFT_NAME),
        itl_attainment=share(ITL_NAME),
        replica_hours=result.replica_seconds / 3600.0,
        worst_5min=min((each.share for each in worst if each is not None), default=1.0),
        recovery_s=_recovery_s(outcomes, yardstick, case),
        replica_reversals=result.most_reversals(Knob.REPLICAS),
        budget_reversals=result.most_reversals(Knob.BUDGET),
        replica_moves=len(replicas),
        budget_moves=len(budgets),
        replicas_peak=max((sample.desired for sample in result.samples), default=0),
        cut=result.cut,
        wall_s=wall_s,
    )


def _settled(
    outcomes: Sequence[Outcome], case: LoadCase, cold_start_s: float
) -> tuple[list[Outcome], ...]:
    """What lies between steps, less one cold start after each, in which nobody can serve it all."""
    begins_s = (0.0, *(step_s + cold_start_s for step_s in case.steps_up_at_s))
    ends_s = (*case.steps_up_at_s, inf)
    return tuple(
        [each for each in outcomes if begin_s <= each.arrival_s < end_s]
        for begin_s, end_s in zip(begins_s, ends_s, strict=True)
    )


def _recovery_s(outcomes: Sequence[Outcome], yardstick: Yardstick, case: LoadCase) -> float | None:
    """None where the load has no threefold step; the rest of the load where it never recovered."""
    if not case.steps_up_at_s or not case.is_threefold:
        return None
    step_s = case.steps_up_at_s[0]
    found = recovery_s(outcomes, yardstick.goodput, step_s=step_s, share=ATTAINMENT)
    return case.duration_s - step_s if found is None else found
