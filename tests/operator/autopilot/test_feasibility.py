from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

import pytest

from paceline_operator.api.v1alpha1 import SloMetric
from paceline_operator.autopilot.feasibility import judge, within_limits
from paceline_operator.autopilot.learning import learned
from paceline_operator.autopilot.replicas.need import need
from paceline_operator.autopilot.replicas.scale_in_guard import forbidden_in
from paceline_operator.autopilot.situation.situation import Situation, understand
from paceline_operator.autopilot.vocabulary.decision import Reason
from paceline_operator.autopilot.vocabulary.memory import Memory
from paceline_operator.autopilot.vocabulary.policy import Objective
from paceline_operator.autopilot.vocabulary.window import (
    Counter,
    Histogram,
    Latency,
    SloCounts,
    StepClass,
    slo_key,
)
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


def answering(
    target_ms: int,
    output: float,
    *,
    percentile: int = 95,
    good: float = 0.0,
    batch: float = 0.0,
    others: tuple[int, ...] = (),
) -> Situation:
    """Answers of so many tokens at 25 ms each, all late, on replicas with hardly any load."""
    given = replace(
        auto(None, None),
        objectives=tuple(
            Objective(name="answer", metric=SloMetric.E2E, target_ms=each, percentile=percentile)
            for each in (target_ms, *others)
        ),
    )
    decode = [(0.0, rows, 200 * rows, 0.0, (20 + 5 * rows) / 1e3) for rows in (1.0, 1.0, 2.0)]
    mixed = [(100.0, rows, 200 * rows, 100.0, (25 + 5 * rows) / 1e3) for rows in (1.0, 2.0)]
    ended = Histogram((0.5 * output, output, 2 * output, inf), (0.0, 5.0, 0.0, 0.0), 5 * output)
    slices = tuple(
        window(
            NOW - 5.0 * n - 5,
            NOW - 5.0 * n,
            steps={
                StepClass.DECODE_ONLY: moments(*decode * 20),
                StepClass.MIXED: moments(*mixed * 10),
            },
            counters={
                Counter.REQUESTS_RECEIVED: 5.0,
                Counter.PROMPT_TOKENS_RECEIVED: 500.0,
                Counter.BATCH_TOKENS_RECEIVED: batch,
            },
            histograms={Latency.GENERATION_TOKENS: ended},
            slo={
                slo_key("answer", "E2E", each): SloCounts(5 * good, 5 * (1 - good))
                for each in (target_ms, *others)
            },
        )
        for n in reversed(range(36))
    )
    seen = fleet(slices=slices)
    return understand(given, seen, learned(given, seen, Memory(), NOW), NOW)


def test_answers_that_one_alone_cannot_give_in_time_are_said_and_not_chased() -> None:
    """500 tokens at 25 ms are 12.5 s: no number of replicas makes them 5."""
    s = answering(5000, 500.0)
    judged = judge(s)
    assert judged.feasible is not False, "other objectives still get their replicas"
    found = within_limits(s, judged)
    assert found.feasible is False
    assert "A mean answer of 500 tokens needs" in found.message
    assert "25 ms per token; the E2E target is 5.0 s" in found.message
    assert not s.ttft_violated
    assert s.late == ()
    assert need(s, feasible=True).reason is Reason.DEMAND_FORECAST
    assert (forbidden_in(s) or [None])[0] is not Reason.TTFT_QUEUE


@pytest.mark.parametrize("others", [(), (5000,)])
def test_answers_that_are_late_for_another_reason_ask_for_a_replica(
    others: tuple[int, ...],
) -> None:
    """Whatever else is wanted of answers, each objective is judged by itself."""
    s = answering(20000, 500.0, others=others)
    assert (within_limits(s, judge(s)).feasible is not False) is not others
    assert s.late == (SloMetric.E2E,)
    assert need(s, feasible=True).wanted > s.fleet.desired_replicas


@pytest.mark.parametrize(
    "more", [{"percentile": 50}, {"good": 1.0}, {"batch": 100.0}], ids=["median", "met", "batch"]
)
def test_a_mean_answer_does_not_always_prove_that_none_is_in_time(more: dict[str, Any]) -> None:
    """Of a median, of what is met all the same, or where a batch tier's answers are among them."""
    s = answering(5000, 500.0, **more)
    assert within_limits(s, judge(s)).feasible is not False


@pytest.mark.parametrize(("good", "feasible"), [(100, True), (60, False)])
def test_what_is_measured_to_hold_is_not_called_unmeetable(good: int, feasible: bool) -> None:
    """The model takes one sequence alone for too slow; gaps are in time all the same."""
    decode = [(0.0, rows, 200 * rows, 0.0, 0.110) for rows in (1.0, 2.0)] * 30
    slices = tuple(
        window(
            NOW - 5.0 * n - 5,
            NOW - 5.0 * n,
            steps={
                StepClass.DECODE_ONLY: moments(*decode),
                StepClass.MIXED: moments(*[(80.0, 1.0, 200.0, 0.0, 0.120)] * 20),
            },
            slo={slo_key(ITL, "ITL", 100): SloCounts(good, 100 - good)},
        )
        for n in reversed(range(12))
    )
    given, seen = auto(None, 100), fleet(slices=slices)
    s = understand(given, seen, learned(given, seen, Memory(), NOW), NOW)
    assert s.plant.decode_ms(1.0) > 100
    found = judge(s)
    assert (found.feasible is not False) is feasible
    assert ("holds all the same" in found.message) is (found.feasible is True)
