"""The engine's own estimate of its step time, learned late instead of step by step."""

from __future__ import annotations

import random

from paceline_operator.simulator.engine import step_time
from paceline_operator.simulator.engine.step_time import StepLoad, StepTimeTarget


def loads(count: int, seed: int = 1) -> list[tuple[StepLoad, float]]:
    chance = random.Random(seed)
    found = []
    for _ in range(count):
        tokens, rows = chance.randint(1, 400), chance.randint(0, 40)
        load = StepLoad(tokens, rows, 100 * rows + tokens, tokens * chance.randint(tokens, 900))
        noise = chance.uniform(0.97, 1.03)
        found.append((load, noise * (5 + 0.1 * tokens + 0.05 * rows + 2e-6 * load.chunk_context)))
    return found


def test_asking_now_and_then_changes_nothing() -> None:
    asked, unasked = StepTimeTarget(30.0, 16), StepTimeTarget(30.0, 16)
    for number, (load, duration_ms) in enumerate(loads(120)):
        asked.observe(load, duration_ms)
        unasked.observe(load, duration_ms)
        if number % 3 == 0:
            asked.longest(load, 50)
    for load, _ in loads(10, seed=2):
        assert asked.longest(load, 70) == unasked.longest(load, 70)


def test_the_chunk_keeps_the_target() -> None:
    target = StepTimeTarget(30.0, 16)
    for load, duration_ms in loads(200):
        target.observe(load, duration_ms)
    length = target.longest(StepLoad(decode_rows=10, kv_tokens=1000), 0)
    assert 0.85 * 30 < 5 + 0.1 * length + 0.5 + 2e-6 * length * length < 30


def test_every_step_may_hold_a_least_part() -> None:
    target = StepTimeTarget(1.0, 16)
    assert target.longest(StepLoad(), 0) == 16
    assert target.longest(StepLoad(prefill_tokens=10), 0) == 6


def test_the_largest_step_is_never_forgotten() -> None:
    target = StepTimeTarget(1e6, 16)
    target.observe(StepLoad(prefill_tokens=1000, kv_tokens=1000, chunk_context=10**6), 100.0)
    for _ in range(step_time.REMEMBERED + 5):
        target.observe(StepLoad(prefill_tokens=20, kv_tokens=20, chunk_context=400), 2.0)
    assert target.longest(StepLoad(), 0) == 1250
