"""When measured violations alone may ask for a replica."""

from __future__ import annotations

import pytest

from paceline_operator.autopilot.arbitration import Cause
from paceline_operator.autopilot.decision import Reason
from paceline_operator.autopilot.learning import learned
from paceline_operator.autopilot.memory import Memory
from paceline_operator.autopilot.replica_need import need
from paceline_operator.autopilot.situation import Situation, understand
from paceline_operator.autopilot.window import Counter, SloCounts, StepClass, slo_key
from tests.operator.autopilot.build import ITL, auto, fleet, moments, window

NOW = 1000.0


def decoding(rows: tuple[int, ...], steps: int, fixed_ms: float, per_row_ms: float) -> Situation:
    """A minute of decode-only steps on one replica, all gaps of which miss 100 ms."""
    each = [(0.0, float(r), 200.0 * r, 0.0, (fixed_ms + per_row_ms * r) / 1e3) for r in rows]
    made = (each * steps)[: steps // 12]
    slices = tuple(
        window(
            NOW - 5 * n - 5,
            NOW - 5 * n,
            steps={StepClass.DECODE_ONLY: moments(*made)},
            counters={Counter.REQUESTS_RECEIVED: 0.1, Counter.PROMPT_TOKENS_RECEIVED: 10.0},
            slo={slo_key(ITL, "ITL", 100): SloCounts(0, len(made) * sum(rows) / len(rows))},
        )
        for n in reversed(range(12))
    )
    given, seen = auto(None, 100), fleet(pods=1, slices=slices)
    return understand(given, seen, learned(given, seen, Memory(), NOW), NOW)


CASES = {
    "one sequence, slow by itself": ((1,), 480, 150.0, 10.0, False),
    "one sequence, few steps": ((1,), 36, 150.0, 10.0, False),
    "several, each slow by itself": ((2, 4), 480, 150.0, 10.0, False),
    "several, slow together": ((9, 10, 11), 480, 10.0, 12.0, True),
    "several, slow together, few steps": ((2, 30), 24, 95.0, 4.0, False),
}


@pytest.mark.parametrize("name", CASES)
def test_a_replica_is_ordered_only_for_sequences_that_it_would_take_over(name: str) -> None:
    rows, steps, fixed_ms, per_row_ms, ordered = CASES[name]
    s = decoding(rows, steps, fixed_ms, per_row_ms)
    assert s.cause is Cause.DECODE
    found = need(s, feasible=True)
    assert (found.wanted > 1) is ordered, found.message
    assert (found.reason is Reason.ITL_DECODE_BOUND) is ordered
