from __future__ import annotations

import pytest

from paceline_operator.autopilot.feasibility import judge
from paceline_operator.autopilot.learning import learned
from paceline_operator.autopilot.memory import Memory
from paceline_operator.autopilot.situation import Situation, understand
from paceline_operator.autopilot.window import Counter, SloCounts, StepClass, slo_key
from tests.operator.autopilot.build import ITL, auto, fleet, moments, window

NOW = 1000.0


def violated(per_token_ms: float, per_row_ms: float) -> Situation:
    """Sixty sequences decode beside prompts, and ITL is missed."""
    steps = [
        (size, rows, 200 * rows, 0, (5 + per_token_ms * size + per_row_ms * rows) / 1e3)
        for size in (20.0, 60.0, 200.0)
        for rows in (10.0, 40.0, 60.0)
    ]
    decode = [(0.0, rows, 200 * rows, 0.0, (5 + per_row_ms * rows) / 1e3)
              for rows in (10.0, 40.0, 60.0)]  # fmt: skip
    slices = tuple(
        window(
            NOW - 5.0 * n - 5,
            NOW - 5.0 * n,
            steps={
                StepClass.MIXED: moments(*steps * 5),
                StepClass.DECODE_ONLY: moments(*decode * 5),
            },
            counters={Counter.REQUESTS_RECEIVED: 5.0, Counter.PROMPT_TOKENS_RECEIVED: 500.0},
            slo={slo_key(ITL, "ITL", 100): SloCounts(20, 80)},
        )
        for n in reversed(range(36))
    )
    given, seen = auto(None, 100), fleet(slices=slices)
    return understand(given, seen, learned(given, seen, Memory(), NOW), NOW)


@pytest.mark.parametrize(
    ("per_token_ms", "per_row_ms", "feasible"), [(0.1, 2.5, True), (20.0, 0.1, False)]
)
def test_only_what_replicas_cannot_take_away_is_infeasible(
    per_token_ms: float, per_row_ms: float, feasible: bool
) -> None:
    s = violated(per_token_ms, per_row_ms)
    assert s.cap is None
    assert s.itl_violated
    found = judge(s)
    assert found.feasible is feasible, found.message


@pytest.mark.parametrize(("steps", "feasible"), [(480, False), (36, None)])
def test_slow_decoding_of_one_is_known_before_steps_with_prompts_are(
    steps: int, feasible: bool | None
) -> None:
    """One client alone seldom fills a budget; that its tokens are slow is plain all the same."""
    alone = [(0.0, 1.0, 200.0, 0.0, 0.150)] * (steps // 12)
    slices = tuple(
        window(NOW - 5.0 * n - 5, NOW - 5.0 * n, steps={StepClass.DECODE_ONLY: moments(*alone)})
        for n in reversed(range(12))
    )
    given, seen = auto(None, 100), fleet(slices=slices)
    s = understand(given, seen, learned(given, seen, Memory(), NOW), NOW)
    assert not s.model_trusted
    assert judge(s).feasible is feasible
