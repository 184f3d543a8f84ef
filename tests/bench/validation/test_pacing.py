"""What a round of pacing against a plain budget is judged by."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.validation.measures import Targets
from bench.validation.pacing import MATCHES, is_good
from e2e.load.record import Outcome, Record
from paceline_operator.simulator.profiles import find_profile

TARGETS = Targets(ttft_ms=500.0, itl_ms=50.0)
RECORD = Record(
    id=1, phase="steady", kind="chat", streamed=True, scheduled_s=0.0, sent_s=0.0, ended_s=2.0,
    ttft_ms=400.0, gaps_ms=(40.0,) * 19 + (80.0,), prompt_tokens=64, tokens=21, status=200,
    outcome=Outcome.OK,
)  # fmt: skip


@pytest.mark.parametrize(
    ("record", "good"),
    [
        (RECORD, True),  # one gap of twenty may be late
        (replace(RECORD, gaps_ms=(40.0,) * 18 + (80.0,) * 2), False),
        (replace(RECORD, ttft_ms=501.0), False),
        (replace(RECORD, ttft_ms=None), False),
        (replace(RECORD, outcome=Outcome.LOST), False),
    ],
)
def test_a_good_request_meets_both_targets(record: Record, *, good: bool) -> None:
    assert is_good(record, TARGETS) is good


def test_the_plain_budget_is_the_one_that_keeps_the_target_by_the_law() -> None:
    profiles = ("llama-3-8b-a100", "smollm2-135m-cpu2")
    laws = [find_profile(name).law for name in profiles]
    assert [m.budget(law) for m, law in zip(MATCHES, laws, strict=True)] == [384, 144]
