"""What the simulated device makes of a request's settings.

There are no logits, so of the settings that shape them only the absolute ones are honoured:
`min_tokens`, `bad_words`, and biases from `FORCE` up and `-FORCE` down. Log-probabilities are
those of a uniform distribution over the vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final

from paceline_engine.message import TokenLogprobs
from paceline_engine.runner.forbidden import BadWords, forbidden_tokens
from paceline_engine.runner.prompt_targets import prompt_targets
from paceline_engine.sampling import SamplingParams
from paceline_engine.scheduler.output import ScheduledChunk

FORCE: Final = 100.0
"""A bias so large stands for all or nothing, as OpenAI documents it."""


def forbidden_at_end(
    chunk: ScheduledChunk, bad_words: BadWords, end_token_ids: Iterable[int], vocab_size: int
) -> set[int]:
    """Tokens that may not be drawn after a chunk."""
    return forbidden_tokens(
        chunk.sampling,
        bad_words=bad_words,
        history=chunk.history,
        position=chunk.end,
        num_prompt_tokens=chunk.num_prompt_tokens,
        end_token_ids=end_token_ids,
        vocab_size=vocab_size,
    )


def forced_tokens(sampling: SamplingParams, vocab_size: int) -> list[int]:
    """Tokens of which one must be drawn, if there are any."""
    return [i for i, bias in sampling.logit_bias if bias >= FORCE and 0 <= i < vocab_size]


def banned_tokens(sampling: SamplingParams) -> set[int]:
    """Tokens that are drawn only if there is no other."""
    return {token for token, bias in sampling.logit_bias if bias <= -FORCE}


def uniform_logprobs(token: int, top: int, vocab_size: int) -> TokenLogprobs:
    """What a uniform distribution says of a token.

    It comes first of `top`, the ids after it follow, and after the last the first.
    """
    logprob = -math.log(vocab_size)
    listed = tuple(((token + i) % vocab_size, logprob) for i in range(min(top, vocab_size)))
    return TokenLogprobs(token, logprob, 1, listed)


def drawn_logprobs(
    chunks: Iterable[ScheduledChunk], drawn: Mapping[int, int], vocab_size: int
) -> dict[int, TokenLogprobs]:
    """Of each drawn token whose request asks for it."""
    return {
        chunk.request_id: uniform_logprobs(token, top, vocab_size)
        for chunk in chunks
        if (top := chunk.sampling.logprobs) is not None
        and (token := drawn.get(chunk.request_id)) is not None
    }


def prompt_logprobs(
    chunks: Iterable[ScheduledChunk], vocab_size: int
) -> dict[int, tuple[TokenLogprobs, ...]]:
    """Of the prompt tokens that each chunk reports."""
    return {
        chunk.request_id: tuple(
            uniform_logprobs(token, chunk.sampling.prompt_logprobs or 0, vocab_size)
            for token in targets
        )
        for chunk in chunks
        if chunk.sampling.prompt_logprobs is not None and (targets := prompt_targets(chunk))
    }
