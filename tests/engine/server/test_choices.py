from __future__ import annotations

from itertools import count

import pytest

from paceline_engine.server.choices import Choice, Prompt, most_output, plan_choices
from paceline_engine.server.wire import CompletionRequest

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
