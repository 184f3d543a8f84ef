"""Two decisions computed again by hand, from what `explain --json` prints and nothing else.

The arithmetic is that of `docs/autopilot.md`, "A decision computed by hand", written out; none
of the operator's own code takes part in it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from math import ceil, exp, inf, log, sqrt
from pathlib import Path
from typing import Any

import pytest

from paceline_operator.api.status import BudgetStatus, InferenceServiceStatus
from paceline_operator.autopilot.vocabulary.decision import Action, Knob, Tick
from paceline_operator.autopilot.vocabulary.fleet import FleetObservation
from paceline_operator.autopilot.vocabulary.policy import Policy
from paceline_operator.domain.report import Pass, dump, status
from paceline_operator.domain.verdicts import Sight
from paceline_operator.simulator.autopilot_controller import AutopilotController
from paceline_operator.simulator.controller import Orders
from paceline_operator.simulator.fleet.faults import StepsSlower
from tests.operator.cli.sample import SPEC
from tests.operator.simulator.fleets import poisson, run
from tests.operator.simulator.test_autopilot_controller import POLICY
from tests.support.fleet_api import COLLECTION, FleetApi, inference_service
from tests.support.rest import MERGE

PROGRAM = Path(sys.executable).parent / "kubectl-paceline"
Figures = dict[str, Any]


class Watched(AutopilotController):
    """The control law, with all of its answers."""

    def __init__(self, policy: Policy = POLICY) -> None:
        super().__init__(policy)
        self.ticks: list[Tick] = []

    def decide(self, fleet: FleetObservation, now_s: float) -> Orders:
        orders = super().decide(fleet, now_s)
        assert self.last_tick is not None
        self.ticks.append(self.last_tick)
        return orders


def _statuses(ticks: list[Tick]) -> Iterator[InferenceServiceStatus]:
    """What the operator would write after each answer."""
    found = InferenceServiceStatus()
    for tick in ticks:
        made = Pass(
            name="chat", generation=1, spec=None, before=found, sight=Sight(tick=tick),
            budget=BudgetStatus(), memory={}, now_s=1000.0,
        )  # fmt: skip
        found = status(made)
        yield found


def _explained(fleets: FleetApi, name: str, found: InferenceServiceStatus) -> Figures:
    assert fleets.create(inference_service(name, SPEC)).status == 201
    body = {"status": dump(found)}
    written = fleets.rest.call("PATCH", f"{COLLECTION}/{name}/status", body, MERGE)
    assert written.status == 200, written.message
    done = subprocess.run(
        [str(PROGRAM), "explain", name, "--json"],
        env={"KUBECONFIG": str(fleets.server.kubeconfig), "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    knobs = json.loads(done.stdout)["status"]["knobs"]
    return {each["knob"]: each for each in knobs}


@pytest.fixture(scope="module")
def after_a_scale_out(fleets: FleetApi) -> Figures:
    """With one budget for all steps; the others have engines size each."""
    law = Watched(replace(POLICY, is_paced=False))
    run(poisson(30.0, 60.0), law, until_s=60.0, initial_replicas=1)
    found = zip(law.ticks, _statuses(law.ticks), strict=True)
    moved = next(
        written
        for tick, written in found
        if any(d.action is Action.SCALE_OUT for d in tick.decisions)
        and Knob.BUDGET.value in {each.knob for each in written.knobs}
    )
    return _explained(fleets, "by-hand", moved)


@pytest.fixture(scope="module")
def at_rest(fleets: FleetApi) -> Figures:
    law = Watched()
    run(poisson(9.0, 150.0), law, until_s=150.0, initial_replicas=2)
    *_, last = _statuses(law.ticks)
    return _explained(fleets, "by-hand-at-rest", last)


@pytest.fixture(scope="module")
def beside_a_slow_pod(fleets: FleetApi) -> Figures:
    """One of three pods takes twice as long for a step; nobody moves while it is told of."""
    law = Watched()
    slow = StepsSlower(start_s=80.0, end_s=inf, pods=frozenset({1}), factor=2.0)
    run(poisson(24.0, 170.0), law, until_s=170.0, initial_replicas=3, faults=[slow])
    found = zip(law.ticks, _statuses(law.ticks), strict=True)
    told = [w for tick, w in found if tick.estimate is not None and tick.estimate.slow_pods]
    return _explained(fleets, "by-hand-slow-pod", told[-1])


def test_the_slow_pod_lacks_a_part_of_a_replica(beside_a_slow_pod: Figures) -> None:
    assert 0.3 < beside_a_slow_pod["replicas"]["inputs"]["lackingReplicas"] < 0.7


def full_step_ms(f: Figures, budget: float, rows: float, kv_tokens: float) -> float:
    """T of formula (1), of a step that uses the whole budget."""
    prompt = budget - rows
    return float(
        f["prefillBaseMs"]
        + f["prefillPerPromptTokenMs"] * prompt
        + f["prefillPerRowMs"] * rows
        + f["prefillPerKvTokenMs"] * kv_tokens
        + f["prefillPerChunkContextMs"] * prompt * f["contextTokens"]
    )


def budget_cap(f: Figures) -> float:
    """Formula (2), solved for B, and rounded down to the engine's step."""
    d, k = f["rowsP95"], f["kvTokensP95"]
    allowed_ms = (1 - f["margin"]) * f["itlTargetMs"]
    left_ms = allowed_ms - f["prefillBaseMs"] - f["prefillPerRowMs"] * d
    left_ms -= f["prefillPerKvTokenMs"] * k
    per_token_ms = f["prefillPerPromptTokenMs"]
    per_token_ms += f["prefillPerChunkContextMs"] * f["contextTokens"]
    largest = d + left_ms / per_token_ms
    rung = largest // f["budgetStep"] * f["budgetStep"]
    return float(max(f["budgetFloor"], min(f["budgetCeiling"], rung)))


def test_a_budget_decision(after_a_scale_out: Figures) -> None:
    decision = after_a_scale_out["budget"]
    f = decision["inputs"]
    assert f["budgetCap"] == budget_cap(f)
    step_ms = full_step_ms(f, f["budget"], f["rowsP95"], f["kvTokensP95"])
    assert f["stepAtBudgetMs"] == pytest.approx(step_ms, rel=1e-6)
    for each in decision["considered"]:
        step_ms = full_step_ms(f, each["value"], f["rowsP95"], f["kvTokensP95"])
        assert each["figures"]["fullStepMs"] == pytest.approx(step_ms, rel=1e-3)
        allowed_ms = (1 - f["margin"]) * f["itlTargetMs"]
        assert each["figures"]["allowedStepMs"] == pytest.approx(allowed_ms, rel=1e-3)
    chosen = next(each["value"] for each in decision["considered"] if each["chosen"])
    assert chosen <= f["budgetCap"] or decision["action"] == "Hold"


def test_the_step_time_that_engines_are_told(at_rest: Figures) -> None:
    decision = at_rest["stepTime"]
    f = decision["inputs"]
    wanted_ms = (1 - f["marginLearned"]) * f["itlTargetMs"]
    assert f["stepTimeTargetMs"] == pytest.approx(wanted_ms, rel=0.02)
    assert f["budgetCap"] == budget_cap(f)
    (considered,) = decision["considered"]
    assert considered["value"] == round(f["stepTimeTargetMs"])
    step_ms = full_step_ms(f, considered["figures"]["budget"], f["rowsP95"], f["kvTokensP95"])
    assert considered["figures"]["fullStepMs"] == pytest.approx(step_ms, rel=1e-3)


def decode_step_ms(f: Figures, rows: float) -> float:
    """T of formula (1) without prompt tokens; a row holds its prompt and half of its answer."""
    kv_tokens = rows * (f["promptTokensMean"] + f["outputTokensMean"] / 2)
    return float(
        f["decodeBaseMs"] + f["decodePerRowMs"] * rows + f["decodePerKvTokenMs"] * kv_tokens
    )


def full_at(f: Figures, rows: float) -> float:
    kv_tokens = rows * (f["promptTokensMean"] + f["outputTokensMean"] / 2)
    return full_step_ms(f, f["capacityBudget"], rows, kv_tokens)


def prompt_ms(f: Figures, rows: float, tokens: float) -> float:
    """Whole steps of the budget, then one with the rest."""
    room = max(1.0, f["capacityBudget"] - rows)
    steps = max(1, ceil(tokens / room))
    rest = tokens - (steps - 1) * room
    kv_tokens = rows * (f["promptTokensMean"] + f["outputTokensMean"] / 2)
    last_ms = full_step_ms(f, rows + rest, rows, kv_tokens)
    return (steps - 1) * full_at(f, rows) + last_ms


def long_prompt(f: Figures) -> float:
    above = min(1.0, max(0.0, (f["ttftShare"] - 0.5) / 0.45))
    p50, p95 = f["promptTokensP50"], f["promptTokensP95"]
    return float(p50 + above * (p95 - p50))


def wait_ms(busy: float, spread_ms: float, late: float) -> float:
    """Formula (3), solved for t: P(W > t) = busy exp(-t / spread)."""
    found = spread_ms * log(busy / late) if busy > late else 0.0
    assert not found or busy * exp(-found / spread_ms) == pytest.approx(late)
    return found


def fits(f: Figures, rps: float) -> bool:
    """Whether a replica holds so many requests per second within everything."""
    computed = f["promptTokensMean"] * (1 - f["prefixHitShare"])
    rows = 0.0
    for _ in range(12):
        speed = max(1.0, f["capacityBudget"] - rows) / full_at(f, rows)
        busy = rps / 1e3 * computed / speed
        share = min(1.0, busy)
        gap_ms = 1 / (share / full_at(f, rows) + (1 - share) / decode_step_ms(f, max(1.0, rows)))
        before, rows = rows, min(f["runningSeqs"], rps / 1e3 * f["outputTokensMean"] * gap_ms)
        if abs(rows - before) < 1e-3:
            break
    if busy >= 1.0:
        return False
    spread_ms = computed / speed * (1 + f["promptVariation2"]) / 2 / (1 - busy)
    late, missed = 1 - f["ttftShare"], 1 - f["prefixHitShare"]
    usual = prompt_ms(f, rows, f["promptTokensP50"] * missed)
    longest = prompt_ms(f, rows, long_prompt(f) * missed)
    waited = wait_ms(busy, spread_ms, late) + usual
    waited = max(waited, wait_ms(busy, spread_ms, max(0.5, late)) + longest)
    ttft_ms = 15.0 + decode_step_ms(f, max(1.0, rows)) + waited
    alone_ms = 15.0 + decode_step_ms(f, 1.0) + prompt_ms(f, 0.0, long_prompt(f) * missed)
    target, itl = f.get("ttftTargetMs", inf), f.get("itlTargetMs", inf)
    itl_limit = max((1 - f["margin"]) * itl, min(itl, (decode_step_ms(f, 1.0) + itl) / 2))
    kv_tokens = rows * (f["promptTokensMean"] + f["outputTokensMean"])
    return (
        busy <= 0.85
        and rows + sqrt(rows) <= f["runningSeqs"]
        and kv_tokens <= 0.9 * f.get("kvCapacityTokens", inf)
        and decode_step_ms(f, max(1.0, rows)) <= itl_limit
        and ttft_ms <= max(0.9 * target, min(target, (alone_ms + target) / 2))
    )


def capacity_rps(f: Figures) -> float:
    """By bisection, to a tenth of a per mille."""
    low, high = 0.0, 1.0
    while fits(f, high):
        low, high = high, 2 * high
    while high - low > 1e-4 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if fits(f, middle) else (low, middle)
    return low


@pytest.mark.parametrize("moment", ["after_a_scale_out", "at_rest", "beside_a_slow_pod"])
def test_a_decision_about_replicas(moment: str, request: pytest.FixtureRequest) -> None:
    decision = request.getfixturevalue(moment)["replicas"]
    f = decision["inputs"]
    assert f["capacityFactor"] <= 1.0
    assert f["modelReplicaRps"] == pytest.approx(f["capacityFactor"] * capacity_rps(f), rel=2e-3)
    assert f["capacityRps"] == max(f["modelReplicaRps"], f.get("provenReplicaRps") or 0.0)
    lacking = f["lackingReplicas"]
    needed = max(1, ceil((f["forecastRps"] + f["backlogRps"]) / f["capacityRps"] + lacking))
    assert f["neededReplicas"] == needed
    waiting = max(f["waitingTokens"] / f["promptTokensMean"], f["waitingRequests"])
    holds_rps = f["servingReplicaRps"] * f["servingPods"]
    queue = f["ttftTargetMs"] / 1e3 * holds_rps
    cleared = max(0.0, holds_rps - f["offeredRps"]) * f["usualStartS"]
    backlog_rps = max(0.0, waiting - queue - cleared) / max(30.0, 2 * f["usualStartS"])
    assert f["backlogRps"] == pytest.approx(backlog_rps, rel=1e-6)
    expected_rps = max(f["levelRps"], f["carriedRps"])
    sigma_rps = sqrt(f["dispersion"] * expected_rps / max(f["coldStartS"] + 15.0, 30.0))
    assert f["forecastRps"] == pytest.approx(expected_rps + 0.5 * sigma_rps, rel=1e-6)
    kept = ceil(1.1 * f["forecastRps"] / f["capacityRps"] + lacking)
    assert f["keptReplicas"] == max(needed, kept)
    if decision["action"] == "ScaleOut":
        most = f["replicas"] + max(4, f["replicas"])
        assert decision["after"] == min(needed, f["maxReplicas"], most)
    else:
        assert f["replicas"] in range(needed, max(f["keptReplicas"], f["peakReplicas"]) + 1)


def test_the_scale_out_was_one(after_a_scale_out: Figures, at_rest: Figures) -> None:
    assert after_a_scale_out["replicas"]["action"] == "ScaleOut"
    assert at_rest["replicas"]["action"] == "Hold"
