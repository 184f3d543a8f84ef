"""Plain budget against per-step pacing, on stretches of the evaluation's own loads.

    python -m bench.conformance.pacing [LOAD:FROM-TO ...]

with the operator's environment: each load from one second of it to another, steered by the
autopilot as it is shipped and by the same with `stepTimeTargetMs`, at a cold start of 120 s and
one seed. Writes the scores to `bench/results/` and prints them as a table for
`docs/autopilot.md`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from bench.conformance.bars import OURS
from bench.conformance.cell import Cell, Score
from bench.conformance.loads import loads
from bench.conformance.run_cell import run_cell
from bench.conformance.stretch import Stretch
from bench.conformance.tune import needed
from bench.conformance.tuning import Tuning

RESULTS = Path(__file__).parents[1] / "results"
PACED = "ours-paced"
STRETCHES = (
    "step:900-1800",
    "burst:300-1200",
    "on-off:2400-3300",
    "8k-context:1500-2400",
    "hit-rate-drop:1500-2400",
    "slower-steps:1500-2400",
)


def compare(stretch: Stretch) -> dict[str, Score]:
    """Both scores of a stretch."""
    (whole,) = (each for each in loads(None) if each.name == stretch.load)
    case = stretch.of(whole)
    first, mean = needed(case)
    tuning = Tuning(budget=0, peak_replicas=1, first_replicas=first, mean_replicas=mean)
    return {
        policy: run_cell(Cell(load=case.name, policy=policy), case, tuning)
        for policy in (OURS, PACED)
    }


def row(stretch: str, policy: str, score: Score) -> str:
    """A line of the table."""
    recovery = "" if score.recovery_s is None else f"{score.recovery_s:.0f}"
    return (
        f"| {stretch} | {'pacing' if policy == PACED else 'budget'} "
        f"| {100 * score.attainment:.2f} | {100 * score.ttft_attainment:.2f} "
        f"| {100 * score.itl_attainment:.2f} | {score.replica_hours:.2f} "
        f"| {100 * score.worst_5min:.1f} | {recovery} | {score.replica_reversals} "
        f"| {score.budget_reversals} | {score.budget_moves} |"
    )


def main(arguments: Iterable[str]) -> None:
    """Compares, prints, and writes."""
    given = tuple(arguments) or STRETCHES
    began = datetime.now(UTC)
    found: list[dict[str, object]] = []
    for text in given:
        for policy, score in compare(Stretch.read(text)).items():
            print(row(text, policy, score), flush=True)
            found.append({"stretch": text, "policy": policy, **asdict(score)})
    stored = {
        "time": began.isoformat(timespec="seconds"),
        "command": " ".join(("python -m bench.conformance.pacing", *given)),
        "cells": found,
    }
    path = RESULTS / f"pacing-{began:%Y-%m-%d-%H%M%S}.json"
    path.write_text(json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
