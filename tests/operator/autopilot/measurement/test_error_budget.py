"""Burn of the error budget: over an hour and six, remembered in few numbers."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline_operator.api.v1alpha1 import SloMetric
from paceline_operator.autopilot.measurement.error_budget import (
    HOUR_S,
    KEPT,
    SIX_HOURS_S,
    burn,
    noted,
)
from paceline_operator.autopilot.vocabulary.memory import Memory, dump_memory, load_memory
from paceline_operator.autopilot.vocabulary.policy import Objective
from paceline_operator.autopilot.vocabulary.window import SloCounts, Window, slo_key
from tests.operator.autopilot.build import auto, window

TTFT = Objective(name="t", metric=SloMetric.TTFT, target_ms=500)
POLICY = replace(auto(), objectives=(TTFT,))
START = 1_800_000_000.0


def counted(end_s: float, good: float, bad: float) -> Window:
    return window(end_s - 5, end_s, slo={slo_key("t", "TTFT", 500): SloCounts(good, bad)})


def after(*slices: tuple[float, float, float]) -> Memory:
    memory = Memory()
    for end_s, good, bad in slices:
        memory = noted(POLICY, memory, counted(START + end_s, good, bad))
    return memory


def test_burn_one_uses_the_budget_up_exactly() -> None:
    memory = after((0.0, 95, 5), (600.0, 190, 10))
    assert burn(TTFT, memory, START + 600, HOUR_S) == pytest.approx(1.0)


def test_an_incident_leaves_the_hour_first() -> None:
    memory = after((0.0, 50, 50), (3900.0, 100, 0))
    assert burn(TTFT, memory, START + 3900, HOUR_S) == 0.0
    assert burn(TTFT, memory, START + 3900, SIX_HOURS_S) == pytest.approx(5.0)
    assert burn(TTFT, memory, START + 3900 + SIX_HOURS_S, SIX_HOURS_S) is None


def test_nothing_measured_is_no_burn() -> None:
    assert burn(TTFT, Memory(), START, HOUR_S) is None
    assert burn(TTFT, after((0.0, 0, 0)), START, HOUR_S) is None


def test_another_target_begins_anew() -> None:
    memory = after((0.0, 0, 9))
    stricter = replace(POLICY, objectives=(replace(TTFT, target_ms=400),))
    assert noted(stricter, memory, counted(START + 5, 1, 0)).misses == ()


def test_a_clock_that_jumps_begins_anew() -> None:
    memory = after((0.0, 0, 9), (-86400.0, 10, 0))
    assert burn(TTFT, memory, START - 86400, SIX_HOURS_S) == 0.0
    memory = after((0.0, 0, 9), (864000.0, 10, 0))
    assert burn(TTFT, memory, START + 864000, SIX_HOURS_S) == 0.0


def test_six_hours_fit_a_status() -> None:
    memory = after(*((60.0 * n, 123.0, 4.0) for n in range(2 * 6 * 60)))
    assert len(memory.misses[0].total) == KEPT
    dumped = dump_memory(memory)
    assert len(json.dumps(dumped["misses"])) < 1500
    assert load_memory(dumped).misses == memory.misses


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(5, 900), st.integers(0, 99), st.integers(0, 99)),
        min_size=1,
        max_size=60,
    )
)
def test_agrees_with_the_sum_over_all_samples(steps: list[tuple[float, int, int]]) -> None:
    at_s, memory, samples = START, Memory(), []
    for pause_s, good, bad in steps:
        at_s += pause_s
        memory = noted(POLICY, memory, counted(at_s, good, bad))
        samples.append((at_s, good, bad))
    oldest = int(at_s // 300) - int(HOUR_S / 300) + 1
    recent = [(good, bad) for end_s, good, bad in samples if int(end_s // 300) >= oldest]
    total, missed = sum(g + b for g, b in recent), sum(b for _, b in recent)
    found = burn(TTFT, memory, at_s, HOUR_S)
    assert found == (pytest.approx(missed / total / 0.05) if total else None)
