"""The simulated device: time by its law, tokens by seed and position."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline_engine.config import StepTimeLaw
from paceline_engine.message import TokenLogprobs
from paceline_engine.request import Fault
from paceline_engine.runner.base import RunnerOutput
from paceline_engine.runner.failure import Failure
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


def asking(
    *history: int, prompt: int = 1, start: int = 0, samples: bool = True, **wish: Any
) -> ScheduledChunk:
    return ScheduledChunk(
        request_id=1,
        token_ids=history[start:],
        start=start,
        block_ids=[0],
        is_decode=False,
        samples=samples,
        sampling=SamplingParams(**wish),
        history=history,
        num_prompt_tokens=prompt,
    )


def run(item: ScheduledChunk, vocab_size: int = 10, ends: tuple[int, ...] = (0,)) -> RunnerOutput:
    return SimulatedRunner(LAW, TokenLaw(vocab_size, ends), FakeClock()).execute(step(item))


def token_after(*history: int, **wish: Any) -> int:
    ((_, token),) = run(asking(*history, **wish)).sampled
    return token


@settings(deadline=None)
@given(SEEDS, st.sets(st.integers(1, 9), max_size=8))
def test_where_the_token_of_the_law_is_ruled_out_the_next_allowed_one_stands(
    seed: int, ruled_out: set[int]
) -> None:
    plain = token_after(3, seed=seed)
    words = tuple((token,) for token in ruled_out)
    after = [*range(plain, 10), *range(1, plain)]
    expected = next(token for token in after if token not in ruled_out)
    assert token_after(3, seed=seed, bad_words=words) == expected
    biases = tuple((token, -100.0) for token in ruled_out)
    assert token_after(3, seed=seed, logit_bias=biases) == expected
    assert token_after(3, seed=seed, logit_bias=tuple((i, -99.0) for i in ruled_out)) == plain


def test_bad_words_end_where_they_would_be_complete() -> None:
    plain = token_after(3, 4, seed=5)
    assert token_after(3, 4, seed=5, bad_words=((5, plain),)) == plain
    assert token_after(3, 4, seed=5, bad_words=((4, plain),)) != plain
    assert token_after(3, 4, seed=5, bad_words=((3, 4, plain),)) != plain


def test_stop_tokens_wait_for_the_least_length() -> None:
    plain = token_after(3, 4, 4, seed=5)
    wish = {"seed": 5, "stop_token_ids": (plain,)}
    assert token_after(3, 4, 4, **wish) == plain
    assert token_after(3, 4, 4, min_tokens=2, **wish) == plain
    assert token_after(3, 4, 4, min_tokens=3, **wish) != plain


def test_a_bias_of_100_leaves_no_other_choice() -> None:
    seen = {token_after(3, seed=seed, logit_bias=((7, 100.0), (2, 100.0))) for seed in range(50)}
    assert seen == {2, 7}
    assert token_after(3, seed=1, logit_bias=((0, 100.0),)) == 0, "the end of generation too"
    assert token_after(3, seed=1, logit_bias=((0, 100.0), (4, 100.0)), min_tokens=1) == 4
    assert token_after(3, seed=1, logit_bias=((10, 100.0), (-1, 100.0))) == token_after(3, seed=1)


def test_biases_against_all_tokens_cancel_out_and_words_do_not() -> None:
    everything = tuple((token, -100.0) for token in range(10))
    assert token_after(3, seed=1, logit_bias=everything) == token_after(3, seed=1)
    result = run(asking(3, bad_words=tuple((token,) for token in range(10))))
    assert result.sampled == ()
    assert result.failed == ((1, Failure.EXHAUSTED.value),)
    assert result.faults == {1: Fault.EXHAUSTED}


def test_settings_without_logits_to_work_on_change_nothing() -> None:
    wish = {"temperature": 0.0, "top_k": 1, "top_p": 0.1, "min_p": 0.5, "presence_penalty": 2.0}
    for seed in range(20):
        assert token_after(3, 4, seed=seed, **wish) == token_after(3, 4, seed=seed)


def test_logprobs_are_uniform_and_begin_with_the_drawn_token() -> None:
    result = run(asking(3, seed=1, logprobs=3, logit_bias=((9, 100.0),)))
    even = pytest.approx(-math.log(10))
    assert result.sampled == ((1, 9),)
    assert result.logprobs == {1: TokenLogprobs(9, even, 1, ((9, even), (0, even), (1, even)))}
    assert run(asking(3, logprobs=0)).logprobs[1].top == ()
    assert len(run(asking(3, logprobs=20)).logprobs[1].top) == 10
    assert run(asking(3)).logprobs == {}


def test_prompt_logprobs_cover_what_the_chunk_reports() -> None:
    text = (5, 6, 7, 8)
    first = run(asking(*text, prompt=4, prompt_logprobs=1))
    assert [each.token_id for each in first.prompt_logprobs[1]] == [6, 7, 8]
    assert first.prompt_logprobs[1][0].top == ((6, pytest.approx(-math.log(10))),)
    later = run(asking(*text, prompt=4, start=2, prompt_logprobs=0))
    assert [each.token_id for each in later.prompt_logprobs[1]] == [8]
    assert run(asking(*text, prompt=3, prompt_logprobs=0)).prompt_logprobs == {}
    assert run(asking(*text, prompt=4)).prompt_logprobs == {}


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
