"""When the loops run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline_operator.autopilot import pilot
from paceline_operator.autopilot.vocabulary.decision import Knob
from tests.operator.autopilot.build import auto
from tests.operator.autopilot.test_pilot import NOW, calm, rested


def test_loops_run_when_they_are_due() -> None:
    memory = replace(rested(), knob_at_s=NOW - 5, replica_at_s=NOW - 5)
    tick = pilot.step(auto(), calm(), memory, NOW)
    assert tick.decisions == ()
    assert tick.next_due_s == NOW
    due = pilot.step(auto(), calm(), replace(memory, knob_at_s=NOW - 10), NOW)
    assert [d.knob for d in due.decisions] == [Knob.BUDGET]
    assert due.next_due_s == NOW
    both = pilot.step(auto(), calm(), rested(), NOW)
    assert both.next_due_s == NOW + pilot.SURGE_EVERY_S


@pytest.mark.parametrize(
    ("interval_s", "since_s", "knobs"),
    [
        (5.0, 5.0, []),
        (5.0, 9.7, [Knob.BUDGET]),
        (7.1, 7.1, [Knob.BUDGET]),
        (7.1, 14.2, [Knob.BUDGET, Knob.REPLICAS]),
        (12.0, 12.0, [Knob.BUDGET, Knob.REPLICAS]),
        (14.3, 14.3, [Knob.BUDGET, Knob.REPLICAS]),
        (30.0, 30.0, [Knob.BUDGET, Knob.REPLICAS]),
    ],
)
def test_loops_keep_their_period_with_readings_of_any_interval(
    interval_s: float, since_s: float, knobs: list[Knob]
) -> None:
    """Readings 14.3 s apart ran a loop of 15 s every 28.6 s."""
    seen = calm()
    newest = replace(seen.slices[-1], start_s=NOW - interval_s)
    seen = replace(seen, slices=(*seen.slices[:-1], newest))
    memory = replace(rested(), knob_at_s=NOW - since_s, replica_at_s=NOW - since_s)
    assert [each.knob for each in pilot.step(auto(), seen, memory, NOW).decisions] == knobs
