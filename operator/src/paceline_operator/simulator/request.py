"""One request of a load: when it comes, how long it is, what it shares with others."""

from __future__ import annotations

from dataclasses import dataclass

from paceline_operator.autopilot.vocabulary.window import INTERACTIVE

PREFIX_BLOCK_TOKENS = 512
"""Tokens of a prompt that one id of `prefix_blocks` stands for; the last may stand for fewer."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a client sends.

    Attributes:
        arrival_s: When, from the beginning of the load.
        prompt_tokens: Tokens of the prompt, 1 at least.
        output_tokens: Tokens of the answer, 1 at least: where it ends by itself.
        prefix_blocks: Ids of the prompt's 512-token blocks from its beginning; prompts whose
            ids begin alike begin alike. Empty for a prompt that shares nothing.
        tier: `interactive` or `batch`.
    """

    arrival_s: float
    prompt_tokens: int
    output_tokens: int
    prefix_blocks: tuple[int, ...] = ()
    tier: str = INTERACTIVE
