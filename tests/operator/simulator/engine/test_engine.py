"""One simulated engine in time; that it decides as a real one is held by the contract tests."""

from __future__ import annotations

import random
from dataclasses import replace
from math import inf, isclose
from typing import Any

import pytest

from paceline_operator.autopilot.vocabulary.window import BATCH
from paceline_operator.simulator.engine import Engine
from paceline_operator.simulator.engine.speculation import Speculation
from paceline_operator.simulator.engine_config import EngineConfig
from paceline_operator.simulator.law import StepLaw
from paceline_operator.simulator.request import Request
from tests.operator.simulator.engine.recorder import Recorder

LAW = StepLaw(base_ms=8.0, per_prefill_token_ms=0.1, per_decode_row_ms=1.0, per_kv_token_ms=0.01)
CONFIG = EngineConfig(
    law=LAW,
    num_kv_blocks=100,
    max_model_len=1000,
    max_num_batched_tokens=128,
    max_num_seqs=8,
    initial_batched_tokens=128,
    initial_running_seqs=8,
)


def make(**changes: Any) -> tuple[Engine, Recorder]:
    told = Recorder()
    return Engine(replace(CONFIG, **changes), told, 0.0), told


def run(engine: Engine) -> None:
    while engine.next_event_s < inf:
        engine.advance(engine.next_event_s)


def request(prompt: int, output: int, tier: str = "interactive") -> Request:
    return Request(0.0, prompt, output, (), tier)


def test_a_request_is_computed_in_chunks_and_then_drawn_token_by_token() -> None:
    engine, told = make()
    engine.targets((10, 12))
    assert engine.submit(request(150, 4), 7, 1.0) is None
    run(engine)
    chunks = [(step.prefill_tokens, step.rows, step.kv_tokens) for step in told.steps]
    assert chunks == [(128, 0, 128), (22, 0, 150), (0, 1, 151), (0, 1, 152), (0, 1, 153)]
    times = [(8 + 12.8 + 1.28), (8 + 2.2 + 1.5), (9 + 1.51), (9 + 1.52), (9 + 1.53)]
    assert [1e3 * step.seconds for step in told.steps] == pytest.approx(times)
    served = told.served[7]
    assert (served.received_s, served.started_s, served.queue_s) == (1.0, 1.0, 0.0)
    assert served.first_s == pytest.approx(1.0 + sum(times[:2]) / 1e3)
    assert served.ended_s == served.last_s == pytest.approx(1.0 + sum(times) / 1e3)
    assert (served.tokens, served.gaps, served.late_gaps) == (4, 3, (3, 0))
    assert told.outcomes == {7: "length"}
    assert (engine.prompt_tokens, engine.generation_tokens) == (150, 4)
    assert engine.steps_at_budget == 1
    assert engine.is_empty


def test_a_long_answer_is_one_stretch() -> None:
    engine, told = make()
    engine.submit(request(10, 500), 1, 0.0)
    run(engine)
    assert len(told.steps) == 500
    assert told.told == 2


def test_what_comes_in_a_stretch_waits_for_the_step_under_way() -> None:
    engine, told = make()
    engine.submit(request(10, 100), 1, 0.0)
    engine.advance(0.1)
    before = len(told.steps)
    assert told.steps[-1].end_s <= 0.1 < engine.next_event_s
    engine.submit(request(20, 3), 2, 0.1)
    begin_s = engine.next_event_s
    assert begin_s - told.steps[-1].end_s == pytest.approx(told.steps[-1].seconds, abs=2e-5)
    engine.advance(begin_s)
    assert len(told.steps) == before + 1
    run(engine)
    assert told.served[2].started_s == begin_s
    assert told.served[2].queue_s == pytest.approx(begin_s - 0.1)
    assert told.steps[before + 1].prefill_tokens == 20


@pytest.mark.parametrize("seed", range(8))
def test_looking_changes_nothing(seed: int) -> None:
    chance = random.Random(seed)
    arrivals, at_s = [], 0.0
    for _ in range(30):
        at_s += chance.expovariate(20.0)
        tier = BATCH if chance.random() < 0.3 else "interactive"
        arrivals.append((at_s, request(chance.randint(1, 120), chance.randint(1, 80), tier)))
    looked = make(num_kv_blocks=40)
    unlooked = make(num_kv_blocks=40)
    for number, (at_s, each) in enumerate(arrivals):
        for engine, _ in (looked, unlooked):
            assert engine.submit(each, number, at_s) is None
        for later_s in sorted(chance.uniform(0.0, 0.3) for _ in range(chance.randint(0, 3))):
            if number + 1 < len(arrivals) and at_s + later_s < arrivals[number + 1][0]:
                looked[0].advance(at_s + later_s)
    for look in range(400):
        looked[0].advance(at_s + 0.007 * look)
    run(looked[0])
    run(unlooked[0])
    assert len(looked[1].steps) == len(unlooked[1].steps)
    assert looked[1].told > unlooked[1].told
    for one, other in zip(looked[1].steps, unlooked[1].steps, strict=True):
        assert isclose(one.end_s, other.end_s, rel_tol=1e-9)
        assert (one.prefill_tokens, one.rows, one.kv_tokens) == (
            other.prefill_tokens, other.rows, other.kv_tokens
        )  # fmt: skip
    for number, served in looked[1].served.items():
        other = unlooked[1].served[number]
        assert isclose(served.ended_s, other.ended_s, rel_tol=1e-9)
        assert (served.tokens, served.gaps, served.preemptions) == (
            other.tokens, other.gaps, other.preemptions
        )  # fmt: skip
    assert looked[0].generation_tokens == sum(each.output_tokens for _, each in arrivals)


def test_a_slower_engine_takes_longer_from_the_next_step_on() -> None:
    engine, told = make()
    engine.submit(request(10, 30), 1, 0.0)
    engine.advance(0.05)
    engine.slow_down(1.5, 0.05)
    run(engine)
    under_way = next(number for number, step in enumerate(told.steps) if step.end_s > 0.05)
    for number, step in enumerate(told.steps):
        law_s = LAW.step_ms(step.prefill_tokens, step.rows, step.kv_tokens, 0) / 1e3
        factor = 1.0 if number <= under_way else 1.5
        assert step.seconds == pytest.approx(factor * law_s)


def test_live_settings_hold_from_the_next_step_on() -> None:
    engine, told = make()
    engine.submit(request(500, 2), 1, 0.0)
    engine.apply(max_num_batched_tokens=40, max_num_running_seqs=3, now_s=0.001)
    assert (engine.budget, engine.running_cap) == (128, 8)
    engine.advance(engine.next_event_s)
    assert (engine.budget, engine.budget_floor, engine.running_cap) == (32, 16, 3)
    assert (engine.budget_ceiling, engine.budget_step, engine.running_ceiling) == (128, 16, 8)
    run(engine)
    assert [step.prefill_tokens for step in told.steps[:3]] == [128, 32, 32]


def test_a_step_time_target_sizes_chunks() -> None:
    engine, told = make(step_time_target_ms=14.0)
    engine.submit(request(300, 2), 1, 0.0)
    run(engine)
    prefills = [step for step in told.steps if step.prefill_tokens]
    assert prefills[0].prefill_tokens == 16
    assert max(step.prefill_tokens for step in prefills) < 128
    assert all(step.seconds < 0.0147 for step in prefills)


@pytest.mark.parametrize(
    ("changes", "prompt", "output", "reason"),
    [
        ({}, 1000, 1, "never_fits"),
        ({}, 999, 1, None),
        ({"max_queued_requests": 2}, 10, 10, "queued_requests"),
        ({"max_queued_tokens": 300}, 101, 10, "queued_tokens"),
        ({"max_queued_tokens": 300}, 100, 10, None),
        ({"max_kv_tokens": 500}, 100, 181, "projected_kv"),
        ({"max_kv_tokens": 500}, 100, 180, None),
    ],
)
def test_who_does_not_fit_is_turned_away(
    changes: dict[str, Any], prompt: int, output: int, reason: str | None
) -> None:
    engine, told = make(**changes)
    for number in range(2):
        assert engine.submit(request(100, 10), number, 0.0) is None
    assert engine.submit(request(prompt, output), 2, 0.0) == reason
    run(engine)
    assert (2 in told.served) is (reason is None)
    assert told.outcomes == dict.fromkeys(told.served, "length")


def test_whoever_waits_for_a_seat_is_told_of_at_the_end_of_a_step() -> None:
    engine, _ = make(initial_running_seqs=1)
    engine.submit(request(20, 50), 1, 0.0)
    engine.submit(request(30, 5), 2, 0.0)
    engine.submit(request(40, 5, BATCH), 3, 0.0)
    assert (engine.num_running, engine.num_waiting, engine.waiting_tokens) == (0, 3, 50)
    engine.advance(engine.next_event_s)
    assert (engine.num_running, engine.num_waiting, engine.waiting_tokens) == (1, 2, 30)
    engine.advance(engine.next_event_s)
    assert (engine.num_running, engine.num_waiting, engine.num_batch_waiting) == (1, 2, 1)
    assert engine.waiting_tokens == 30
    assert engine.kv_usage == 2 / 100
    run(engine)
    assert (engine.num_running, engine.num_waiting, engine.kv_usage) == (0, 0, 0.0)


@pytest.mark.parametrize(("at_s", "tokens"), [(0.001, 0), (0.0105, 1), (0.3, 29)])
def test_a_client_may_leave_at_any_time(at_s: float, tokens: int) -> None:
    engine, told = make()
    engine.submit(request(10, 100), 1, 0.0)
    engine.submit(request(10, 20), 2, 0.0)
    engine.abort(1, at_s)
    served = told.served[1]
    assert (told.outcomes[1], served.ended_s) == ("abort", at_s)
    run(engine)
    emitted = [step.end_s for step in told.steps if step.end_s <= at_s]
    assert served.tokens == len(emitted) == tokens
    assert served.gaps == max(0, len(emitted) - 1)
    assert served.last_s == (pytest.approx(emitted[-1]) if emitted else None)
    assert told.outcomes == {1: "abort", 2: "length"}
    assert engine.is_empty
    engine.abort(1, 5.0)
    engine.abort(99, 5.0)


def test_other_targets_keep_what_was_counted_for_those_that_stay() -> None:
    engine, told = make()
    engine.targets((9, 100))
    engine.submit(request(10, 30), 1, 0.0)
    engine.advance(0.1)
    before = sum(step.rows for step in told.steps)
    engine.targets((100, 9, 5))
    run(engine)
    after = 29 - before
    assert before > 5
    assert told.served[1].late_gaps == (0, 29, after)


def test_a_gap_that_spans_a_preemption_is_told_by_itself() -> None:
    engine, told = make(num_kv_blocks=6)
    engine.targets((40,))
    engine.submit(request(30, 60), 1, 0.0)
    engine.submit(request(14, 60), 2, 0.0)
    run(engine)
    (gap_s,) = told.odd_gaps
    second = told.served[2]
    assert (second.preemptions, engine.preemptions) == (1, 1)
    assert gap_s > 0.04
    assert (second.tokens, second.gaps, second.late_gaps) == (60, 59, (1,))
    assert told.served[1].late_gaps == (0,)


def test_prompts_that_begin_alike_are_computed_once() -> None:
    engine, told = make()
    for number in range(2):
        engine.submit(Request(0.0, 100, 2, (5,)), number, float(number))
    run(engine)
    assert [told.served[number].cached_tokens for number in range(2)] == [0, 96]
    assert (engine.prefix_queries_tokens, engine.prefix_hits_tokens) == (200, 96)


class Pressed:
    """32 tokens while two prompts are computed beside decodes; keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int, int]] = []

    def tokens(self, *, active_prefills: int, running_decodes: int, budget: int) -> int:
        self.asked.append((active_prefills, running_decodes, budget))
        return 32 if active_prefills >= 2 and running_decodes else budget


def test_a_rule_picks_the_budget_of_each_step() -> None:
    rule = Pressed()
    engine, told = make(step_budget=rule)
    engine.submit(request(16, 50), 1, 0.0)
    engine.advance(engine.next_event_s)
    for number in (2, 3):
        engine.submit(request(200, 2), number, 0.0)
    run(engine)
    sizes = [step.prefill_tokens + step.rows for step in told.steps if step.prefill_tokens]
    assert sizes[0] == 16
    assert (2, 1, 128) in rule.asked
    assert sizes.count(32) >= 200 // 32
    assert max(sizes) == 128  # the last prompt alone has all of the budget


def test_a_rule_leaves_each_decode_its_token() -> None:
    engine, told = make(
        step_budget=Pressed(), max_num_seqs=60, initial_running_seqs=60, num_kv_blocks=1000
    )
    for number in range(50):
        engine.submit(request(16, 400), number, 0.0)
    while told.steps == [] or told.steps[-1].prefill_tokens:
        engine.advance(engine.next_event_s)
    for number in (50, 51):
        engine.submit(request(100, 2), number, 0.0)
    run(engine)
    assert max(step.rows for step in told.steps) == 50
    assert set(told.outcomes.values()) == {"length"}


def test_speculation_gives_each_decode_several_tokens_of_a_step() -> None:
    engine, told = make()
    engine.targets((10,))
    engine.slow_down(1.0, 0.0, Speculation(tokens=4, factor=1.5))
    engine.submit(request(20, 11), 1, 0.0)
    run(engine)
    # The first token comes of the prompt; then 4, 4, and the 2 that are left.
    assert [(step.prefill_tokens, step.rows, step.kv_tokens) for step in told.steps] == [
        (20, 0, 20), (0, 1, 21), (0, 1, 25), (0, 1, 29)
    ]  # fmt: skip
    expected = [8 + 2 + 0.2, 1.5 * (9 + 0.21), 1.5 * (9 + 0.25), 1.5 * (9 + 0.29)]
    assert [1e3 * step.seconds for step in told.steps] == pytest.approx(expected)
    assert told.accepted_tokens == 3 + 3 + 1
    served = told.served[1]
    assert (served.tokens, served.gaps, served.late_gaps) == (11, 10, (3,))
    assert served.ended_s == pytest.approx(sum(expected) / 1e3)
    assert engine.generation_tokens == 11
    assert engine.is_empty


def test_speculation_loses_no_token_where_blocks_are_short() -> None:
    engine, told = make(num_kv_blocks=12)
    engine.slow_down(1.0, 0.0, Speculation(tokens=3, factor=1.2))
    for number in range(6):
        engine.submit(request(30, 70), number, 0.0)
    run(engine)
    assert engine.preemptions > 0
    assert set(told.outcomes.values()) == {"length"}
    assert [served.tokens for served in told.served.values()] == [70] * 6
    assert engine.generation_tokens == 6 * 70
    gaps = sum(served.gaps for served in told.served.values())
    assert gaps == 6 * 69


def test_speculation_ends_with_the_next_step() -> None:
    engine, told = make()
    engine.slow_down(1.0, 0.0, Speculation(tokens=4, factor=1.5))
    engine.submit(request(20, 400), 1, 0.0)
    engine.advance(0.1)
    engine.slow_down(1.0, 0.1)
    run(engine)
    assert told.served[1].tokens == 400
    assert told.accepted_tokens % 3 == 0
    assert 0 < told.accepted_tokens < 30
