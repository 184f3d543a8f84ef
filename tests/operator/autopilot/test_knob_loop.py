"""The margin: integral feedback on the objectives that the budget can do something about."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline_operator.api.v1alpha1 import SloMetric
from paceline_operator.autopilot import pilot
from paceline_operator.autopilot.decision import Knob
from paceline_operator.autopilot.fleet import Tunables
from paceline_operator.autopilot.memory import Memory
from paceline_operator.autopilot.policy import Objective
from paceline_operator.autopilot.window import Counter, SloCounts, slo_key
from tests.operator.autopilot.build import pod
from tests.operator.autopilot.test_situation import objective, wanting

NOW_S = 1000.0
HOPELESS, OTHER = objective(SloMetric.ITL, 5, 90), objective(SloMetric.ITL, 100, 95)


def margin_after(*objectives: Objective, good: float) -> float:
    """Ten seconds at the model's cap, with so many of a hundred gaps within 100 ms, none in 5."""
    counts = {
        slo_key(HOPELESS.name, "ITL", 5): SloCounts(0, 100),
        slo_key(OTHER.name, "ITL", 100): SloCounts(good, 100 - good),
    }
    s = wanting(*objectives, counts=counts)
    cap, base = s.cap, pod().tunables
    assert cap is not None
    assert base is not None
    full = {Counter.STEPS_AT_BUDGET: 9.0}
    seen = replace(
        s.fleet,
        pods=tuple(pod(n, tunables=replace(base, effective=cap)) for n in (1, 2)),
        desired_tunables=Tunables(max_num_batched_tokens=cap, max_num_running_seqs=64),
        slices=tuple(replace(w, counters={**w.counters, **full}) for w in s.fleet.slices),
    )
    known = replace(s.memory, margin_at_s=NOW_S - 10)
    tick = pilot.step(s.policy, seen, known, NOW_S)
    assert any(each.knob is Knob.BUDGET for each in tick.decisions)
    return tick.memory.margin


@pytest.mark.behaviour(
    "an objective on gaps that nothing meets winds no margin up where another can be met",
    report="the strictest was taken: steps shrank to the least there is for nothing",
)
def test_an_objective_that_nothing_meets_winds_no_margin_up() -> None:
    begins = Memory().margin
    assert margin_after(OTHER, good=100) < begins
    assert margin_after(HOPELESS, OTHER, good=100) == margin_after(OTHER, good=100)
    assert margin_after(HOPELESS, OTHER, good=60) == margin_after(OTHER, good=60) > begins
