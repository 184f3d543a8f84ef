from __future__ import annotations

from itertools import count

import pytest

from paceline_engine.server.choices import (
    Choice,
    Prompt,
    check_output_scores,
    most_output,
    plan_choices,
)
from paceline_engine.server.errors import BadRequestError
from paceline_engine.server.wire import ChatRequest, CompletionRequest

PROMPTS = [Prompt(token_ids=(1, 2)), Prompt(token_ids=(3,))]


def plan(body: CompletionRequest) -> list[Choice]:
    seeds = count(1000)
    return list(plan_choices(body, PROMPTS, limit=50, draw_seed=lambda: next(seeds)))


@pytest.mark.behaviour(
    "each choice has its own seed, the first the request's own",
    report="vllm #10852, PR #11898: n > 1 with one seed returned n equal texts",
)
def test_a_seed_for_each_choice() -> None:
    choices = plan(CompletionRequest(prompt="x", n=3, seed=7))
    seeds = [choice.sampling.seed for choice in choices]
    assert seeds[0] == seeds[3] == 7
    assert len(set(seeds)) == 3  # the same for each prompt
    assert [(choice.prompt, choice.index) for choice in choices] == [
        (prompt, index) for prompt in PROMPTS for index in range(3)
    ]


def test_without_a_seed_each_prompt_draws_one() -> None:
    seeds = {choice.sampling.seed for choice in plan(CompletionRequest(prompt="x", n=2))}
    assert len(seeds) == 4


def test_negative_seeds_are_64_bits() -> None:
    for choice in plan(CompletionRequest(prompt="x", n=2, seed=-(2**63))):
        assert 0 <= choice.sampling.seed < 2**64


def test_a_prompt_is_scored_once() -> None:
    choices = plan(CompletionRequest(prompt="x", n=2, logprobs=3, echo=True))
    assert [choice.sampling.prompt_logprobs for choice in choices] == [3, None, 3, None]
    assert {choice.sampling.logprobs for choice in choices} == {3}


@pytest.mark.behaviour(
    "max_tokens beyond the context is cut to it, never refused",
    report="vllm #42474: max_tokens larger than the remaining context was refused",
)
@pytest.mark.parametrize(
    ("max_tokens", "echo", "expected"),
    [(None, False, 16), (5, False, 5), (500, False, 48), (0, True, 1)],
)
def test_output_limit(max_tokens: int | None, echo: bool, expected: int) -> None:
    body = CompletionRequest(prompt="x", max_tokens=max_tokens, echo=echo)
    assert most_output(body, PROMPTS[0], 50) == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, 199_999),
        ({"logprobs": False, "n": 128}, 199_999),
        ({"logprobs": True}, 199_999),  # one for each token
        ({"logprobs": True, "top_logprobs": 20}, 49_932),  # 1,048,576 by 21
        ({"logprobs": True, "top_logprobs": 20, "n": 128}, 390),  # and by 128
    ],
)
def test_without_a_limit_there_are_as_many_tokens_as_may_be_scored(
    fields: dict[str, object], expected: int
) -> None:
    chat = {"messages": [{"role": "user", "content": "x"}], **fields}
    body = ChatRequest.model_validate(chat, strict=False)
    assert most_output(body, PROMPTS[1], 200_000) == expected
    check_output_scores(body, PROMPTS[1:], 200_000)


@pytest.mark.parametrize(
    ("fields", "limit", "allowed"),
    [
        ({"max_tokens": 524_288, "logprobs": 0}, 10**6, True),  # of two prompts: 2**20
        ({"max_tokens": 524_289, "logprobs": 0}, 10**6, False),
        ({"max_tokens": 524_289, "logprobs": 0}, 524_289, True),  # cut to the context first
        ({"max_tokens": 10**6}, 10**6, True),
        ({"max_tokens": 4096, "n": 127, "best_of": 128}, 10**6, True),
        ({"max_tokens": 4097, "n": 127, "best_of": 128}, 10**6, False),
        ({"max_tokens": 4097, "n": 128, "best_of": 128}, 10**6, True),  # nothing to compare
        ({"max_tokens": 4096, "n": 64, "logprobs": 1}, 10**6, True),
        ({"max_tokens": 4096, "n": 65, "logprobs": 1}, 10**6, False),
    ],
)
def test_log_probabilities_of_all_outputs_are_bounded(
    fields: dict[str, int], limit: int, allowed: bool
) -> None:
    body = CompletionRequest.model_validate({"prompt": "x", **fields})
    if allowed:
        check_output_scores(body, PROMPTS, limit)
        return
    with pytest.raises(BadRequestError, match="the limit is 1048576"):
        check_output_scores(body, PROMPTS, limit)
