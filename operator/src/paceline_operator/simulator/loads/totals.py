"""How many requests a load has, and how long they are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from paceline_operator.simulator.request import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """A load in four figures.

    Attributes:
        requests: How many.
        prompt_mean: Tokens of a prompt.
        output_mean: Tokens of an answer.
        longest: Prompt and answer of the longest request, tokens.
    """

    requests: int = 0
    prompt_mean: float = 0.0
    output_mean: float = 0.0
    longest: int = 1


def totals(load: Iterable[Request]) -> Totals:
    """The figures of a load, which is read once and not kept."""
    requests, prompts, outputs, longest = 0, 0, 0, 1
    for each in load:
        requests += 1
        prompts += each.prompt_tokens
        outputs += each.output_tokens
        longest = max(longest, each.prompt_tokens + each.output_tokens)
    return Totals(
        requests=requests,
        prompt_mean=prompts / max(1, requests),
        output_mean=outputs / max(1, requests),
        longest=longest,
    )
