"""The simulated device: time by its law, tokens by seed and position."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline_engine.config import StepTimeLaw
from paceline_engine.runner.simulated import (
    HOST_GAP_S,
    SimulatedRunner,
    TokenLaw,
    mix,
    step_seconds,
)
from paceline_engine.sampling import SamplingParams
from paceline_engine.scheduler.output import ScheduledChunk, SchedulerOutput
from tests.support.fake_clock import FakeClock

LAW = StepTimeLaw(
    base_ms=2.0, per_token_ms=0.1, per_kv_token_ms=0.001, floor_ms=5.0, floor_per_token_ms=0.02
)
SEEDS = st.integers(0, 2**64 - 1)
POSITIONS = st.integers(0, 10**6)


def chunk(
    request_id: int, *, start: int = 0, length: int = 1, samples: bool = True
) -> ScheduledChunk:
    return ScheduledChunk(
        request_id=request_id,
        token_ids=[1] * length,
        start=start,
        block_ids=[0],
        is_decode=length == 1,
        samples=samples,
        sampling=SamplingParams(seed=request_id),
    )


def step(*chunks: ScheduledChunk) -> SchedulerOutput:
    return SchedulerOutput(step_id=0, chunks=chunks, budget=4096)


@pytest.mark.parametrize(
    ("num_tokens", "kv_tokens", "ms"),
    [(0, 0, 5.0), (10, 0, 5.2), (100, 0, 12.0), (100, 1000, 13.0), (10, 1000, 6.2)],
)
def test_step_time(num_tokens: int, kv_tokens: int, ms: float) -> None:
    assert step_seconds(LAW, num_tokens, kv_tokens) == pytest.approx(ms / 1e3)


def test_splitmix64_reference_values() -> None:
    """First outputs of the published generator for seed 1234567."""
    assert [mix(1234567, position) for position in range(3)] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
    ]


@settings(deadline=None)
@given(
    seed=SEEDS,
    position=POSITIONS,
    vocab_size=st.integers(5, 200),
    avoided=st.sets(st.integers(-2, 250), max_size=4),
)
def test_tokens_lie_in_the_vocabulary_and_are_never_an_end(
    seed: int, position: int, vocab_size: int, avoided: set[int]
) -> None:
    token = TokenLaw(vocab_size, avoided).token(seed, position)
    assert 0 <= token < vocab_size
    assert token not in avoided


def test_tokens_spread_evenly_over_all_that_is_allowed() -> None:
    law = TokenLaw(12, (0, 5))
    counts = [0] * 12
    for position in range(10_000):
        counts[law.token(42, position)] += 1
    assert (counts[0], counts[5]) == (0, 0)
    assert all(850 < count < 1150 for token, count in enumerate(counts) if token not in (0, 5))


def test_a_vocabulary_of_end_tokens_only_is_refused() -> None:
    with pytest.raises(ValueError, match="no token is left"):
        TokenLaw(2, (0, 1))


def test_only_sampling_chunks_draw_and_at_their_end() -> None:
    law = TokenLaw(300, (0,))
    runner = SimulatedRunner(LAW, law, FakeClock())
    output = runner.execute(
        step(
            chunk(1, start=9),
            chunk(2, start=0, length=16, samples=False),
            chunk(3, start=16, length=4),
        )
    )
    assert output.sampled == ((1, law.token(1, 10)), (3, law.token(3, 20)))
    assert output.failed == ()


def test_a_step_ends_at_its_deadline() -> None:
    clock = FakeClock(start_s=50.0)
    runner = SimulatedRunner(LAW, TokenLaw(300, ()), clock)
    runner.execute(step(chunk(1, start=99), chunk(2, length=100)))
    assert clock.deadlines == [pytest.approx(50.0 + step_seconds(LAW, 101, 200))]


def test_short_host_work_between_steps_hides_behind_the_device() -> None:
    clock = FakeClock(start_s=0.0)
    runner = SimulatedRunner(LAW, TokenLaw(300, ()), clock)
    for _ in range(10):
        runner.execute(step(chunk(1)))
        clock.time_s += HOST_GAP_S / 2
    assert clock.deadlines[-1] == pytest.approx(10 * step_seconds(LAW, 1, 1))


def test_an_idle_device_starts_when_it_is_asked() -> None:
    clock = FakeClock(start_s=0.0)
    runner = SimulatedRunner(LAW, TokenLaw(300, ()), clock)
    runner.execute(step(chunk(1)))
    clock.time_s = 7.0
    runner.execute(step(chunk(1)))
    assert clock.deadlines[-1] == pytest.approx(7.0 + step_seconds(LAW, 1, 1))


def test_a_host_slower_than_the_device_does_not_pile_up_debt() -> None:
    clock = FakeClock(start_s=0.0)
    instant = StepTimeLaw(base_ms=0.1, per_token_ms=0.0)
    runner = SimulatedRunner(instant, TokenLaw(300, ()), clock)
    for _ in range(50):
        clock.time_s += 0.001
        runner.execute(step(chunk(1)))
    clock.time_s += 1.0
    before = clock.time_s
    runner.execute(step(chunk(1)))
    assert clock.time_s == pytest.approx(before + 0.0001)
