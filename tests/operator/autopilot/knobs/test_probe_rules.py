"""A budget moved only to learn from it: where the model needs it and nothing can suffer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from paceline_operator.autopilot.knobs import loop as knob_loop
from paceline_operator.autopilot.knobs.probe_rules import UNCERTAIN_SD, probe
from paceline_operator.autopilot.knobs.trial_rules import judge_trial
from paceline_operator.autopilot.learning import learned
from paceline_operator.autopilot.situation.situation import Situation, understand
from paceline_operator.autopilot.vocabulary.decision import Reason
from paceline_operator.autopilot.vocabulary.fleet import Trial
from paceline_operator.autopilot.vocabulary.memory import Memory
from paceline_operator.autopilot.vocabulary.window import (
    Counter,
    PodShare,
    SloCounts,
    StepClass,
    slo_key,
)
from tests.operator.autopilot.build import ITL, TTFT, auto, fleet, moments, pod, window

NOW_S = 2000.0


def situation(*, late: float = 0.0, itl_ms: int = 100, pods: int = 3, **memory: Any) -> Situation:
    """A minute of full steps that are all alike: what a prompt token costs cannot be told."""
    one = (504.0, 8.0, 5600.0, 25200.0, 0.0712)
    counts = {
        slo_key(ITL, "ITL", itl_ms): SloCounts(100.0, 0.0),
        slo_key(TTFT, "TTFT", 1000): SloCounts(100.0 - late, late),
    }
    share = PodShare({StepClass.MIXED: moments(*[one] * 60)}, 60.0, counts)
    counters = {Counter.STEPS_AT_BUDGET: 60.0, Counter.REQUESTS_RECEIVED: 10.0,
                Counter.PROMPT_TOKENS_RECEIVED: 1000.0}  # fmt: skip
    slices = tuple(
        window(NOW_S - 5 * n, NOW_S - 5 * n + 5, steps=share.steps, slo=share.slo,
               counters=counters, pods={"uid-1": share})
        for n in range(12, 0, -1)
    )  # fmt: skip
    made = tuple(pod(n + 1) for n in range(pods))
    seen, given = fleet(pods=made, slices=slices, now_s=NOW_S), auto(1000, itl_ms)
    known = learned(given, seen, Memory(proven_budget=512, proven_at_s=NOW_S, **memory), NOW_S)
    return understand(given, seen, replace(known, **memory), NOW_S)


def test_one_pod_has_the_next_rung_where_a_prompt_tokens_cost_is_unknown() -> None:
    s = situation()
    assert s.plant.prefill.coefficient_sd("p") > UNCERTAIN_SD
    move = probe(s)
    assert move is not None
    assert move.reason is Reason.PROBE
    assert move.trial is not None
    assert (move.trial.uid, move.trial.probes) == ("uid-1", True)
    assert move.tunables == s.knobs
    assert abs(move.trial.budget - 512) <= 64
    assert move.trial.budget != 512
    assert move.memory is not None
    assert move.memory.probed_at_s == NOW_S


def test_close_to_the_target_it_goes_down() -> None:
    move = probe(situation(itl_ms=80))
    assert move is not None
    assert move.after < move.before


@pytest.mark.parametrize(
    "given",
    [
        {"late": 30.0},
        {"pods": 1},
        {"probed_at_s": NOW_S - 200},
        {"trial": Trial(uid="uid-1", budget=560)},
        {"squeezed_seqs": 32},
    ],
    ids=["an objective missed", "one pod", "lately", "a trial", "a squeeze"],
)
def test_it_is_never_done_where_something_else_matters(given: dict[str, Any]) -> None:
    assert probe(situation(**given)) is None


def test_it_ends_after_a_minute_and_at_once_where_first_tokens_are_late() -> None:
    trial = Trial(uid="uid-1", budget=560, probes=True)
    base = pod().tunables
    assert base is not None

    def tried(begun_s: float, late: float) -> Situation:
        s = situation(trial=trial, trial_at_s=begun_s, late=late)
        first = replace(s.fleet.pods[0], tunables=replace(base, effective=560))
        seen = replace(s.fleet, pods=(first, *s.fleet.pods[1:]))
        return understand(s.policy, seen, s.memory, NOW_S)

    assert judge_trial(tried(NOW_S - 20, 0.0)) is None
    for s in (tried(NOW_S - 60, 0.0), tried(NOW_S - 20, 60.0)):
        move = judge_trial(s)
        assert move is not None
        assert move.reason is Reason.CANARY_ROLLED_BACK
        outcome = knob_loop.run(s)
        assert outcome.memory.trial is None
        assert outcome.memory.failed_budget == 0


def test_a_probe_that_misses_an_objective_ends_and_is_held_against_no_budget() -> None:
    """It was never a raise: what it shows is no reason to refuse one."""
    base = pod().tunables
    assert base is not None
    for budget in (448, 560):
        trial = Trial(uid="uid-1", budget=budget, probes=True)
        s = situation(trial=trial, trial_at_s=NOW_S - 40)
        late = {slo_key(ITL, "ITL", 100): SloCounts(40.0, 60.0)}
        slices = tuple(
            replace(w, pods={"uid-1": replace(w.pods["uid-1"], slo=late)}) for w in s.fleet.slices
        )
        first = replace(s.fleet.pods[0], tunables=replace(base, effective=budget))
        seen = replace(s.fleet, slices=slices, pods=(first, *s.fleet.pods[1:]))
        move = judge_trial(understand(s.policy, seen, s.memory, NOW_S))
        assert move is not None
        assert move.reason is Reason.CANARY_ROLLED_BACK
        assert "only to learn from" in move.message
        assert move.memory is not None
        assert (move.memory.failed_budget, move.memory.failed_at_s) == (0, 0.0)
