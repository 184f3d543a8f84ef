from __future__ import annotations

from paceline_operator.simulator.loads.totals import Totals, totals
from paceline_operator.simulator.request import Request


def test_of_a_load() -> None:
    found = totals([Request(0.0, 100, 10), Request(1.0, 300, 50)])
    assert found == Totals(requests=2, prompt_mean=200.0, output_mean=30.0, longest=350)


def test_of_nothing() -> None:
    assert totals([]) == Totals()
