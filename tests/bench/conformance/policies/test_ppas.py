"""The switch of P-PAS."""

from __future__ import annotations

import pytest

from bench.conformance.policies.ppas import Ppas
from paceline_operator.simulator.step_budget import StepBudget


@pytest.mark.parametrize(
    ("prefills", "decodes", "budget", "expected"),
    [
        (2, 1, 16384, 2048),
        (9, 40, 16384, 2048),
        (1, 40, 16384, 16384),
        (2, 0, 16384, 16384),
        (0, 0, 16384, 16384),
        (2, 1, 512, 512),  # a smaller budget in force is never exceeded
    ],
)
def test_small_budget_under_pressure(
    prefills: int, decodes: int, budget: int, expected: int
) -> None:
    rule: StepBudget = Ppas()
    found = rule.tokens(active_prefills=prefills, running_decodes=decodes, budget=budget)
    assert found == expected
