"""The fit of the engine's own step time, and the chunks that follow from it."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline_engine.config import StepTimeLaw
from paceline_engine.runner.profiles import PROFILES
from paceline_engine.runner.simulated import step_seconds
from paceline_engine.scheduler.step_time import StepLoad, StepTimeModel

LAW = StepTimeLaw(base_ms=5.0, per_token_ms=0.05, per_kv_token_ms=0.0002)


def true_ms(law: StepTimeLaw, load: StepLoad) -> float:
    return 1e3 * step_seconds(law, load.prefill_tokens + load.decode_rows, load.kv_tokens)


def random_load(rng: random.Random, prefill: int | None = None) -> StepLoad:
    rows = rng.randint(0, 32)
    load = StepLoad(decode_rows=rows, kv_tokens=rows * rng.randint(100, 800))
    return load.with_chunk(rng.randint(0, 500), rng.randint(1, 512) if prefill is None else prefill)


def taught(law: StepTimeLaw, *, steps: int = 200, noise: float = 0.0) -> StepTimeModel:
    rng = random.Random(1)
    model = StepTimeModel()
    for _ in range(steps):
        load = random_load(rng)
        model.observe(load, true_ms(law, load) * (1 + rng.uniform(-noise, noise)))
    return model


def test_loads_add_up() -> None:
    load = StepLoad(decode_rows=3, kv_tokens=90).with_chunk(10, 5)
    assert load == StepLoad(5, 3, 90 + 15, 5 * 15)
    assert load.with_chunk(10, 8, instead_of=5) == StepLoad(8, 3, 90 + 18, 8 * 18)
    assert load.with_chunk(10, 0, instead_of=5) == StepLoad(0, 3, 90, 0)


def test_a_linear_law_is_found() -> None:
    model, rng = taught(LAW), random.Random(2)
    for _ in range(50):
        load = random_load(rng)
        assert model.predict_ms(load) == pytest.approx(true_ms(LAW, load), rel=0.01)


def test_noise_is_measured_and_kept_off_the_target() -> None:
    quiet, noisy = taught(LAW), taught(LAW, noise=0.1)
    assert quiet.noise_ms < 0.1 < noisy.noise_ms
    load = StepLoad(decode_rows=8, kv_tokens=2000)
    assert 0 < noisy.longest_chunk(load, 0, 20.0) < quiet.longest_chunk(load, 0, 20.0)


@pytest.fixture(scope="module")
def model() -> StepTimeModel:
    return taught(LAW)


@settings(deadline=None)
@given(seed=st.integers(0, 1000), target_ms=st.floats(6, 40))
def test_the_longest_chunk_keeps_the_target_and_one_token_more_does_not(
    model: StepTimeModel, seed: int, target_ms: float
) -> None:
    rng = random.Random(seed)
    rows = rng.randint(0, 32)
    load, start = StepLoad(decode_rows=rows, kv_tokens=rows * 300), rng.randint(0, 500)
    length = model.longest_chunk(load, start, target_ms)
    limit = target_ms - 1.65 * model.noise_ms
    if length:
        assert model.predict_ms(load.with_chunk(start, length)) <= limit + 1e-6
    if length < model.longest_chunk(load, start, 1e9):
        assert model.predict_ms(load.with_chunk(start, length + 1)) > limit - 1e-6


def test_nothing_is_promised_before_anything_was_measured() -> None:
    assert StepTimeModel().longest_chunk(StepLoad(), 0, 1e9) == 0


def test_a_step_grows_by_a_quarter_at_most() -> None:
    model = StepTimeModel()
    for _ in range(20):
        model.observe(StepLoad().with_chunk(0, 100), 10.0)
    assert model.longest_chunk(StepLoad(), 0, 1e9) == 125
    assert model.longest_chunk(StepLoad().with_chunk(0, 100), 0, 1e9) == 25


def test_decodes_alone_teach_nothing_here() -> None:
    model = taught(LAW)
    before = model.steps
    model.observe(StepLoad(decode_rows=8, kv_tokens=800), 5.0)
    assert model.steps == before


@pytest.mark.parametrize("duration_ms", [0.0, -1.0, float("inf"), float("nan")])
def test_a_time_that_cannot_be_is_not_learned(duration_ms: float) -> None:
    model = taught(LAW)
    before = model.steps
    model.observe(StepLoad().with_chunk(0, 100), duration_ms)
    assert model.steps == before


def test_one_stall_changes_nothing_and_a_slower_machine_is_believed() -> None:
    model, rng = taught(LAW), random.Random(3)
    load = random_load(rng, 256)
    before = model.predict_ms(load)
    model.observe(load, 10 * before)
    assert model.predict_ms(load) == before
    for _ in range(60):
        each = random_load(rng)
        model.observe(each, 2 * true_ms(LAW, each))
    assert model.predict_ms(load) == pytest.approx(2 * true_ms(LAW, load), rel=0.05)


def test_steady_load_does_not_make_it_wander_off() -> None:
    """Thousands of equal steps say nothing of the slopes: plain forgetting would blow up."""
    model, rng = taught(LAW), random.Random(4)
    for _ in range(2000):
        load = StepLoad(decode_rows=16, kv_tokens=4000).with_chunk(0, 128)
        model.observe(load, true_ms(LAW, load) * rng.uniform(0.98, 1.02))
    double = StepLoad(decode_rows=16, kv_tokens=4000).with_chunk(0, 256)
    assert 0.4 < model.predict_ms(double) / true_ms(LAW, double) < 1.6


@pytest.mark.parametrize("profile", sorted(PROFILES))
def test_the_target_is_kept_on_a_law_with_a_bend(profile: str) -> None:
    """Closed loop from nothing: prompts never end, decode rows come and go."""
    law, rng, model = PROFILES[profile].law, random.Random(5), StepTimeModel()
    target_ms = 1.5 * true_ms(law, StepLoad(prefill_tokens=64, decode_rows=64, kv_tokens=30_000))
    times, chunks, rows = [], [], 32
    for _ in range(400):
        rows = min(max(rows + rng.randint(-2, 2), 0), 64)
        load = StepLoad(decode_rows=rows, kv_tokens=rows * 400)
        length = min(max(model.longest_chunk(load, 0, target_ms), 16), 2048)
        load = load.with_chunk(0, length)
        took = true_ms(law, load) * rng.uniform(0.99, 1.01)
        model.observe(load, took)
        times.append(took)
        chunks.append(length)
    settled = times[100:]
    assert sum(took <= 1.02 * target_ms for took in settled) >= 0.9 * len(settled)
    assert sum(settled) / len(settled) > 0.9 * target_ms
    assert max(times) < 1.3 * target_ms
    assert max(chunks) > 64
