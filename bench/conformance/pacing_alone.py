"""Plain budget against per-step pacing in one engine that nobody steers.

    python -m bench.conformance.pacing_alone

with the operator's environment: a steady load on one replica, at shares of the rate that the
model says it holds. The budget is the one at which that rate is highest, of those whose full
steps keep 90 % of the ITL target; with pacing the engine keeps that time itself, below its
ceiling. Writes the figures to `bench/results/` and prints them as a table.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import inf

from bench.conformance.load_case import LoadCase, Service
from bench.conformance.pacing import RESULTS
from bench.conformance.run_cell import fleet_config
from bench.conformance.seeded_loads import (
    CHAT,
    CLOSE,
    CONTEXT_8K,
    LARGE,
    SHORT_CHAT,
    SMALL,
    TEMPLATED,
)
from bench.conformance.shape import measure
from bench.conformance.sizing import capacity_by_budget
from paceline_operator.autopilot.vocabulary.fleet import FleetObservation
from paceline_operator.simulator.controller import Orders
from paceline_operator.simulator.loads.lengths import LogNormalLengths
from paceline_operator.simulator.loads.rates import Constant
from paceline_operator.simulator.loads.single_turns import SingleTurns, Stage
from paceline_operator.simulator.run import simulate
from paceline_operator.simulator.scoring.outcome import REFUSED
from paceline_operator.simulator.scoring.score import overall
from paceline_operator.simulator.scoring.yardstick import Yardstick

BUDGETS = (128, 192, 256, 320, 384, 448, 512, 640, 768, 1024)
KEPT = 0.9
"""Share of the ITL target that steps may take."""
SHARES = (0.9, 1.05, 1.2)
SECONDS = 300.0
MIXES = (
    ("chat, 70B, ITL 100 ms", LARGE, CHAT),
    ("8k context, 8B, ITL 50 ms", SMALL, CONTEXT_8K),
    ("short chat, 70B, ITL 75 ms", TEMPLATED, SHORT_CHAT),
    ("chat, 70B, ITL 60 ms", CLOSE, CHAT),
)


class Nobody:
    """Steers nothing."""

    next_due_s = inf

    def decide(self, fleet: FleetObservation, now_s: float) -> Orders:
        """Never asked."""
        raise AssertionError("nobody was to be asked")

    def disturbed(self, now_s: float) -> None:
        """Nothing to forget."""

    def restarted(self) -> None:
        """Nothing to remember."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One run."""

    mix: str
    share: float
    rps: float
    budget: int | None
    good: float
    itl: float
    refused: float


def compare(name: str, service: Service, lengths: LogNormalLengths) -> Iterator[Found]:
    """Both, at each share of what the model says."""
    work = measure(_case(service, lengths, 2.0, 600.0).play(random.Random(1))).stretches[0].workload
    rates = capacity_by_budget(service, work, BUDGETS, within_ms=KEPT * service.itl_ms)
    budget = max(rates, key=lambda each: rates[each])
    for share in SHARES:
        rps = share * rates[budget]
        for given in (budget, None):
            yield _run(name, _case(service, lengths, rps, SECONDS), share, rps, given)


def _case(service: Service, lengths: LogNormalLengths, rps: float, seconds: float) -> LoadCase:
    load = SingleTurns(rates=Constant(rps=rps, duration_s=seconds), stages=(Stage(0.0, lengths),))
    return LoadCase(name="alone", play=load.requests, duration_s=seconds, service=service)


def _run(name: str, case: LoadCase, share: float, rps: float, budget: int | None) -> Found:
    fleet = fleet_config(case, 120.0, initial_replicas=1, budget=budget)
    if budget is None:
        kept_ms = KEPT * case.service.itl_ms
        fleet = replace(fleet, engine=replace(fleet.engine, step_time_target_ms=kept_ms))
    result = simulate(case.play(random.Random(1)), fleet, Nobody(), generator=random.Random(7))
    outcomes = result.outcomes
    gaps = sum(each.gaps for each in outcomes)
    late = sum(sum(each.late_gaps) for each in outcomes)
    return Found(
        mix=name,
        share=share,
        rps=rps,
        budget=budget,
        good=overall(outcomes, Yardstick(case.service.objectives).goodput).share,
        itl=1 - late / max(1, gaps),
        refused=sum(each.outcome == REFUSED for each in outcomes) / len(outcomes),
    )


def main() -> None:
    """Compares, prints, and writes."""
    began = datetime.now(UTC)
    found = [each for mix in MIXES for each in compare(*mix)]
    for each in found:
        kind = "pacing" if each.budget is None else f"budget {each.budget}"
        print(
            f"| {each.mix} | {each.share:g} | {kind} | {100 * each.good:.1f} "
            f"| {100 * each.itl:.1f} | {100 * each.refused:.1f} |"
        )
    stored = {
        "time": began.isoformat(timespec="seconds"),
        "command": "python -m bench.conformance.pacing_alone",
        "runs": [
            {name: getattr(each, name) for name in Found.__dataclass_fields__} for each in found
        ],
    }
    path = RESULTS / f"pacing-alone-{began:%Y-%m-%d-%H%M%S}.json"
    path.write_text(json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    main()
