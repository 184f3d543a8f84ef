from __future__ import annotations

from math import inf

from paceline_operator.autopilot.vocabulary.window import Histogram
from paceline_operator.simulator.metering.tally import Tally


def test_samples_are_taken_once() -> None:
    tally = Tally((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 7.0):
        tally.observe(value)
    tally.add((0, 3, 0), 5.0)
    assert tally.take() == Histogram((1.0, 2.0, inf), (2.0, 4.0, 1.0), 15.0)
    assert tally.take() is None
    tally.observe(2.0)
    assert tally.take() == Histogram((1.0, 2.0, inf), (0.0, 1.0, 0.0), 2.0)
