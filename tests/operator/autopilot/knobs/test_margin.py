"""The margin: integral feedback on the objectives that the budget can do something about."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from paceline_operator.api.v1alpha1 import SloMetric
from paceline_operator.autopilot import pilot
from paceline_operator.autopilot.knobs.margin import FAILED_LASTS_S, JUDGED_AFTER, LEAST, trimmed
from paceline_operator.autopilot.situation.situation import Situation
from paceline_operator.autopilot.vocabulary.decision import Knob
from paceline_operator.autopilot.vocabulary.fleet import Tunables
from paceline_operator.autopilot.vocabulary.memory import MarginGrowth, Memory
from paceline_operator.autopilot.vocabulary.policy import Objective
from paceline_operator.autopilot.vocabulary.window import Counter, SloCounts, slo_key
from tests.operator.autopilot.build import pod
from tests.operator.autopilot.situation.test_situation import objective, wanting

NOW_S = 1000.0
HOPELESS, OTHER = objective(SloMetric.ITL, 5, 90), objective(SloMetric.ITL, 100, 95)


def margin_after(*objectives: Objective, good: float) -> float:
    """Ten seconds at the model's cap, with so many of a hundred gaps within 100 ms, none in 5."""
    s = at_cap(*objectives, good=good)
    tick = pilot.step(s.policy, s.fleet, s.memory, NOW_S)
    assert any(each.knob is Knob.BUDGET for each in tick.decisions)
    return tick.memory.margin


def at_cap(*objectives: Objective, good: float, **memory: Any) -> Situation:
    counts = {
        slo_key(HOPELESS.name, "ITL", 5): SloCounts(0, 100),
        slo_key(OTHER.name, "ITL", 100): SloCounts(good, 100 - good),
    }
    s = wanting(*objectives, counts=counts)
    s = replace(s, memory=replace(s.memory, **{"margin_at_s": NOW_S - 10, **memory}))
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
    return replace(s, fleet=seen)


def after(good: float, **memory: Any) -> Memory:
    """So many of a hundred gaps are in time where 95 must be."""
    return trimmed(at_cap(OTHER, good=good, **memory), is_free=True)


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
    ("margin", "growth", "expected"),
    [
        (0.10, MarginGrowth(), MarginGrowth(start=0.10, missed=0.30)),
        (0.12, MarginGrowth(start=0.10, missed=0.33), MarginGrowth(start=0.10, missed=0.33)),
        (GROWN, MarginGrowth(start=0.10, missed=0.40), MarginGrowth(start=0.225, missed=0.30)),
        (GROWN, MarginGrowth(start=0.10, missed=0.33), MarginGrowth(failed_at_s=NOW_S)),
    ],
    ids=["begins", "goes on", "has brought a quarter", "has brought a tenth"],
)
def test_a_margin_that_brings_nothing_is_given_back(
    margin: float, growth: MarginGrowth, expected: MarginGrowth
) -> None:
    found = after(65, margin=margin, margin_growth=growth)
    assert found.margin_growth.start == pytest.approx(expected.start)
    assert found.margin_growth.missed == pytest.approx(expected.missed)
    assert found.margin_growth.failed_at_s == expected.failed_at_s
    assert found.margin == pytest.approx(0.10 if expected.failed_at_s else margin + 0.025)


@pytest.mark.parametrize(
    ("since_s", "good", "moves"),
    [(FAILED_LASTS_S - 1, 65, 0), (FAILED_LASTS_S, 65, 1), (60.0, 100, -1)],
    ids=["not yet", "again", "objectives hold"],
)
def test_it_is_not_tried_again_for_a_while(since_s: float, good: float, moves: int) -> None:
    failed = MarginGrowth(failed_at_s=NOW_S - since_s)
    found = after(good, margin=0.10, margin_growth=failed)
    assert (found.margin > 0.10) - (found.margin < 0.10) == moves
    assert bool(found.margin_growth.failed_at_s) is (moves == 0)


def test_the_margin_has_a_least() -> None:
    assert after(100, margin=LEAST).margin == LEAST


def test_it_stays_while_something_holds_the_knobs() -> None:
    held = trimmed(at_cap(OTHER, good=65, margin=0.10), is_free=False)
    assert (held.margin, held.margin_growth, held.margin_at_s) == (0.10, MarginGrowth(), NOW_S)
