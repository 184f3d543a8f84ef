from __future__ import annotations

from dataclasses import replace

from paceline_operator.api.v1alpha1 import Tier
from paceline_operator.simulator.what_if.run_notes import without_samples
from tests.operator.simulator.what_if.build import ITL, TTFT, figures


def test_nothing_is_said_of_what_has_samples() -> None:
    runs = figures(attained=(0.5, None)), figures(attained=(0.5, 0.9))
    assert without_samples((TTFT, ITL), runs) == ()


def test_it_is_said_why_there_are_no_samples() -> None:
    batch = replace(TTFT, tier=Tier.BATCH)
    run = figures(attained=(None, None), offered=(0, 1234))
    assert without_samples((batch, ITL), (run, run)) == (
        "No samples of first-token: no request of the batch tier was played.",
        "No samples of cadence: 1,234 requests of the interactive tier came, and none was served "
        "so far that it could be measured.",
    )
