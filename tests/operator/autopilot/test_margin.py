"""The margin: integral feedback on the objectives that the budget can do something about."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from paceline_operator.api.v1alpha1 import SloMetric
from paceline_operator.autopilot import pilot
from paceline_operator.autopilot.decision import Knob
from paceline_operator.autopilot.fleet import Tunables
from paceline_operator.autopilot.margin import FAILED_LASTS_S, JUDGED_AFTER, MOST
from paceline_operator.autopilot.memory import MarginGrowth, Memory
from paceline_operator.autopilot.policy import Objective
from paceline_operator.autopilot.window import Counter, SloCounts, slo_key
from tests.operator.autopilot.build import pod
from tests.operator.autopilot.test_situation import objective, wanting

NOW_S = 1000.0
HOPELESS, OTHER = objective(SloMetric.ITL, 5, 90), objective(SloMetric.ITL, 100, 95)


def margin_after(*objectives: Objective, good: float) -> float:
    """Ten seconds at the model's cap, with so many of a hundred gaps within 100 ms, none in 5."""
    return memory_after(*objectives, good=good).margin


def memory_after(*objectives: Objective, good: float, **memory: Any) -> Memory:
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
    known = replace(s.memory, **{"margin_at_s": NOW_S - 10, **memory})
    tick = pilot.step(s.policy, seen, known, NOW_S)
    assert any(each.knob is Knob.BUDGET for each in tick.decisions)
    return tick.memory


@pytest.mark.behaviour(
    "an objective on gaps that nothing meets winds no margin up where another can be met",
    report="the strictest was taken: steps shrank to the least there is for nothing",
)
def test_an_objective_that_nothing_meets_winds_no_margin_up() -> None:
    begins = Memory().margin
    assert margin_after(OTHER, good=100) < begins
    assert margin_after(HOPELESS, OTHER, good=100) == margin_after(OTHER, good=100)
    assert margin_after(HOPELESS, OTHER, good=60) == margin_after(OTHER, good=60) > begins


GROWN = 0.10 + JUDGED_AFTER


@pytest.mark.parametrize(
    ("margin", "growth", "after"),
    [
        (0.10, MarginGrowth(), MarginGrowth(start=0.10, missed=0.30)),
        (0.12, MarginGrowth(start=0.10, missed=0.33), MarginGrowth(start=0.10, missed=0.33)),
        (GROWN, MarginGrowth(start=0.10, missed=0.40), None),
        (GROWN, MarginGrowth(start=0.10, missed=0.33), MarginGrowth(failed_at_s=NOW_S)),
    ],
    ids=["begins", "goes on", "has brought a quarter", "has brought a tenth"],
)
def test_a_margin_that_brings_nothing_is_given_back(
    margin: float, growth: MarginGrowth, after: MarginGrowth | None
) -> None:
    """65 % of the gaps are in time where 95 % must be."""
    found = memory_after(OTHER, good=65, margin=margin, margin_growth=growth)
    assert found.margin_growth.missed == pytest.approx(after.missed if after else 0.30)
    if after is None:
        assert found.margin_growth.start == found.margin > margin
        return
    assert found.margin_growth.start == after.start
    assert found.margin_growth.failed_at_s == after.failed_at_s
    assert (found.margin > margin) is (not after.failed_at_s)
    if after.failed_at_s:
        assert found.margin == growth.start


@pytest.mark.parametrize(
    ("since_s", "good", "moves"),
    [(FAILED_LASTS_S - 1, 65, 0), (FAILED_LASTS_S, 65, 1), (60.0, 100, -1)],
    ids=["not yet", "again", "objectives hold"],
)
def test_it_is_not_tried_again_for_a_while(since_s: float, good: float, moves: int) -> None:
    failed = MarginGrowth(failed_at_s=NOW_S - since_s)
    found = memory_after(OTHER, good=good, margin=0.10, margin_growth=failed)
    assert (found.margin > 0.10) - (found.margin < 0.10) == moves
    assert bool(found.margin_growth.failed_at_s) is (moves == 0)


def test_the_margin_has_a_limit() -> None:
    assert margin_after(OTHER, good=0) <= MOST
    assert memory_after(OTHER, good=0, margin=MOST).margin == MOST
