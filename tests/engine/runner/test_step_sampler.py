"""From hidden states to a step's results: who gets what, and who fails."""

from __future__ import annotations

import math

import pytest
import torch

from paceline_engine.message import TokenLogprobs
from paceline_engine.request import Fault
from paceline_engine.runner.failure import Failure
from paceline_engine.runner.step_sampler import StepSampler, outcome
from paceline_engine.sampling import SamplingParams
from paceline_engine.scheduler.output import ScheduledChunk

WIDTH = 12
GREEDY = SamplingParams(temperature=0.0)


def chunk(
    owner: int,
    history: list[int],
    wish: SamplingParams,
    *,
    prompt: int | None = None,
    length: int = 1,
    samples: bool = True,
) -> ScheduledChunk:
    return ScheduledChunk(
        request_id=owner,
        token_ids=history[-length:],
        start=len(history) - length,
        block_ids=[0],
        is_decode=length == 1,
        samples=samples,
        sampling=wish,
        history=history,
        num_prompt_tokens=len(history) if prompt is None else prompt,
    )


def same(states: torch.Tensor) -> torch.Tensor:
    """A head that shows hidden states as logits."""
    return states


def states(count: int) -> torch.Tensor:
    return torch.randn(count, WIDTH, generator=torch.Generator().manual_seed(4))


def test_only_sampling_rows_are_drawn_and_each_gets_what_it_asked_for() -> None:
    hidden = states(7)
    chunks = [
        chunk(1, [3, 4], GREEDY),
        chunk(2, [1, 2, 3], GREEDY, length=3, samples=False),
        chunk(3, [5, 6, 7], SamplingParams(temperature=0.0, logprobs=2), length=3),
    ]
    result = StepSampler(WIDTH, ()).output(chunks, hidden, same)
    best = hidden.argmax(1).tolist()
    assert result.sampled == ((1, best[0]), (3, best[6]))
    assert result.failed == ()
    assert list(result.logprobs) == [3]
    assert result.logprobs[3].token_id == best[6]
    assert result.logprobs[3].rank == 1
    assert len(result.logprobs[3].top) == 2
    assert result.prompt_logprobs == {}


def test_a_step_that_samples_nothing_calls_no_head() -> None:
    def head(_states: torch.Tensor) -> torch.Tensor:
        raise AssertionError("nothing samples")

    result = StepSampler(WIDTH, ()).output(
        [chunk(2, [1, 2], GREEDY, length=2, samples=False)], states(2), head
    )
    assert (result.sampled, result.failed) == ((), ())


def test_logprobs_are_those_of_the_model_whatever_the_settings_do() -> None:
    hidden = states(1)
    wish = SamplingParams(
        temperature=0.3, seed=4, logit_bias=((2, 100.0),), presence_penalty=2.0, logprobs=3
    )
    result = StepSampler(WIDTH, ()).output([chunk(1, [2, 2], wish, prompt=1)], hidden, same)
    assert result.sampled == ((1, 2),)
    expected = hidden[0].log_softmax(0)
    assert result.logprobs[1].logprob == pytest.approx(float(expected[2]), abs=1e-6)
    assert [i for i, _ in result.logprobs[1].top] == expected.topk(3).indices.tolist()


@pytest.mark.behaviour(
    "rows of the model's head that the tokenizer has no token for are never drawn nor listed",
    report="vllm #13175: padded vocabulary rows were sampled, which the tokenizer cannot decode",
)
@pytest.mark.parametrize("wish", [GREEDY, SamplingParams(), SamplingParams(presence_penalty=1.0)])
def test_padding_is_never_drawn(wish: SamplingParams) -> None:
    hidden = torch.zeros(1, WIDTH)
    hidden[0, 8:] = 50.0
    wish = SamplingParams(
        temperature=wish.temperature, presence_penalty=wish.presence_penalty, seed=3, logprobs=20
    )
    for length in range(1, 40):
        result = StepSampler(8, (9,)).output([chunk(1, [9] * length, wish)], hidden, same)
        assert result.sampled[0][1] < 8
        assert [i for i, _ in result.logprobs[1].top] == list(range(8))


@pytest.mark.behaviour(
    "logits that are not finite fail their request; the rest of the batch goes on unharmed",
    report="vllm #53029, PR #50183: all-NaN logits became an impossible token and a later crash",
)
@pytest.mark.parametrize("poison", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("all_of_it", [False, True])
def test_a_poisoned_row_fails_its_request_alone(poison: float, all_of_it: bool) -> None:
    hidden = states(3)
    chunks = [
        chunk(1, [1], SamplingParams(seed=1)),
        chunk(2, [1, 2], SamplingParams(temperature=0.0, logprobs=1, presence_penalty=1.0)),
        chunk(3, [1], SamplingParams(temperature=0.0, logprobs=1)),
    ]
    healthy = StepSampler(WIDTH, ()).output(chunks, hidden, same)
    hidden[1, slice(None) if all_of_it else 5] = poison
    result = StepSampler(WIDTH, ()).output(chunks, hidden, same)
    assert result.failed == ((2, Failure.NON_FINITE.value),)
    assert not result.faults
    assert result.sampled == tuple(each for each in healthy.sampled if each[0] != 2)
    assert result.logprobs == {3: healthy.logprobs[3]}


def test_penalties_out_of_range_fail_their_request_alone() -> None:
    wish = SamplingParams(temperature=0.0, repetition_penalty=1e-38)
    hidden = states(2).abs() + 4
    result = StepSampler(WIDTH, ()).output(
        [chunk(1, [1], GREEDY), chunk(2, [3], wish)], hidden, same
    )
    assert result.sampled == ((1, int(hidden[0].argmax())),)
    assert result.failed == ((2, Failure.OVERFLOW.value),)
    assert result.faults == {2: Fault.OVERFLOW}


def test_a_poisoned_prompt_row_fails_its_request_even_if_it_samples_nothing() -> None:
    asked = SamplingParams(temperature=0.0, prompt_logprobs=1)
    hidden = states(6)
    hidden[1, 3] = math.nan
    chunks = [
        chunk(1, [1, 2, 3], asked, length=3, samples=False, prompt=3),
        chunk(2, [4, 5, 6], asked, length=3),
    ]
    result = StepSampler(WIDTH, ()).output(chunks, hidden, same)
    assert result.failed == ((1, Failure.NON_FINITE.value),)
    assert [each.token_id for each in result.prompt_logprobs[2]] == [5, 6]
    assert list(result.prompt_logprobs) == [2]
    assert [owner for owner, _ in result.sampled] == [2]


def test_end_tokens_wait_for_the_least_length() -> None:
    hidden = torch.zeros(1, WIDTH)
    hidden[0, 3], hidden[0, 4], hidden[0, 5] = 9.0, 8.0, 7.0
    wish = SamplingParams(temperature=0.0, min_tokens=2, stop_token_ids=(4,))
    sampler = StepSampler(WIDTH, (3,))
    drawn = [
        sampler.output([chunk(1, [0] * length, wish, prompt=1)], hidden, same).sampled[0][1]
        for length in (1, 2, 3)
    ]
    assert drawn == [5, 5, 3]


def test_an_impossible_token_fails_its_request_alone() -> None:
    scores = {owner: (TokenLogprobs(0, -1.0, 1),) for owner in (7, 8)}
    done = outcome({7: 299, 8: 300, 9: Failure.EXHAUSTED, 10: -1}, scores, {}, vocab_size=300)
    assert done.sampled == ((7, 299),)
    assert done.failed == (
        (8, Failure.OUTSIDE.value),
        (9, Failure.EXHAUSTED.value),
        (10, Failure.OUTSIDE.value),
    )
    assert list(done.logprobs) == [7]
    assert done.faults == {9: Fault.EXHAUSTED}
