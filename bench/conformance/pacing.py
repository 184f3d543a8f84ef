"""Plain budget against per-step pacing, on stretches of the evaluation's own loads.

    python -m bench.conformance.pacing [--noise SHARE ...] [LOAD:FROM-TO ...]

with the operator's environment: each load from one second of it to another, steered by the
autopilot as it is shipped, with `stepTimeTargetMs`, and by the same with one budget for all steps,
at a cold start of 120 s and one seed, with steps that lie around their law by so much. Writes the
scores to `bench/results/` and prints them as a table for `docs/autopilot.md`.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from dataclasses import asdict, replace
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from random import Random

from bench.conformance.bars import OURS
from bench.conformance.cell import Score
from bench.conformance.contestants import Contest, controller
from bench.conformance.load_case import LoadCase
from bench.conformance.loads import loads
from bench.conformance.run_cell import fleet_config, scored
from bench.conformance.stretch import Stretch
from bench.conformance.tune import needed
from bench.conformance.tuning import Tuning
from paceline_operator.simulator.run import simulate
from paceline_operator.simulator.step_noise import StepNoise

RESULTS = Path(__file__).parents[1] / "results"
BY_BUDGET = "ours-by-budget"
COLD_START_S = 120.0
SEED = 1
NOISE_SEED = 1_000_003
STRETCHES = (
    "step:900-1800",
    "burst:300-1200",
    "on-off:2400-3300",
    "8k-context:1500-2400",
    "hit-rate-drop:1500-2400",
    "slower-steps:1500-2400",
)


NOISE = (0.0, 0.1, 0.25)
"""Of single steps, as a share of their time; the last is that of our CPU engine."""


def compare(stretch: Stretch, noise: float) -> dict[str, Score]:
    """Both scores of a stretch, with steps that lie around their law by such a share."""
    (whole,) = (each for each in loads(None) if each.name == stretch.load)
    case = stretch.of(whole)
    first, mean = needed(case)
    tuning = Tuning(budget=0, peak_replicas=1, first_replicas=first, mean_replicas=mean)
    return {policy: _score(policy, case, tuning, noise) for policy in (BY_BUDGET, OURS)}


def _score(policy: str, case: LoadCase, tuning: Tuning, noise: float) -> Score:
    """As a cell of the evaluation is run, but for the noise."""
    started_s = time.monotonic()
    fleet = fleet_config(case, COLD_START_S, initial_replicas=tuning.first_replicas, budget=None)
    engine = replace(
        fleet.engine,
        step_noise=StepNoise(decode=noise, prefill=noise),
        generators=Random,
        noise_seed=NOISE_SEED,
    )
    contest = Contest(case=case, tuning=tuning, cold_start_s=COLD_START_S, seed=SEED)
    result = simulate(
        case.play(Random(SEED)),
        replace(fleet, engine=engine),
        controller(policy, None, contest),
        generator=Random(SEED + 1),
        faults=case.faults,
    )
    return scored(result, case, COLD_START_S, time.monotonic() - started_s)


def row(stretch: str, noise: float, policy: str, score: Score) -> str:
    """A line of the table."""
    recovery = "" if score.recovery_s is None else f"{score.recovery_s:.0f}"
    return (
        f"| {stretch} | {100 * noise:.0f} % | {'budget' if policy == BY_BUDGET else 'pacing'} "
        f"| {100 * score.attainment:.2f} | {100 * score.ttft_attainment:.2f} "
        f"| {100 * score.itl_attainment:.2f} | {score.replica_hours:.2f} "
        f"| {100 * score.worst_5min:.1f} | {recovery} | {score.replica_reversals} "
        f"| {score.budget_reversals} | {score.budget_moves} |"
    )


def main() -> None:
    """Compares, prints, and writes."""
    parser = argparse.ArgumentParser(prog="python -m bench.conformance.pacing", description=__doc__)
    parser.add_argument("stretches", nargs="*", metavar="LOAD:FROM-TO", default=STRETCHES)
    parser.add_argument("--noise", nargs="+", type=float, metavar="SHARE", default=NOISE)
    args = parser.parse_args()
    began = datetime.now(UTC)
    found: list[dict[str, object]] = []
    for text, noise in product(args.stretches, args.noise):
        for policy, score in compare(Stretch.read(text), noise).items():
            print(row(text, noise, policy, score), flush=True)
            found.append({"stretch": text, "noise": noise, "policy": policy, **asdict(score)})
    stored = {
        "time": began.isoformat(timespec="seconds"),
        "command": shlex.join(("python", "-m", "bench.conformance.pacing", *sys.argv[1:])),
        "cells": found,
    }
    path = RESULTS / f"pacing-{began:%Y-%m-%d-%H%M%S}.json"
    path.write_text(json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    main()
