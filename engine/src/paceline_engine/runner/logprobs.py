"""Log-probabilities of the model's own distribution: before penalties, masks, temperature.

They are normalised over all the model's rows, as vLLM does by default; ranks and best tokens
leave out rows that the tokenizer does not know.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import torch

from paceline_engine.message import TokenLogprobs
from paceline_engine.runner.failure import Failure
from paceline_engine.runner.prompt_targets import prompt_targets
from paceline_engine.runner.ranking import largest, rank
from paceline_engine.scheduler.output import ScheduledChunk

LOWEST: Final = -9999.0
"""Stands for all below it, minus infinity too, which JSON does not have."""

SLICE_ROWS: Final = 32
"""Rows of prompt logits that are in memory at a time."""


def score(
    logits: torch.Tensor, token_id: int, top: int, vocab_size: int
) -> TokenLogprobs | Failure:
    """Log-probability and rank of a token, and the best ones at its place.

    Args:
        logits: One row [model vocabulary] fp32.
        token_id: The token, of the model's vocabulary.
        top: How many of the best to list.
        vocab_size: Ids from here on are not listed.

    Returns:
        A failure where the row holds NaN or plus infinity.
    """
    norm = float(logits.logsumexp(0))
    if not math.isfinite(norm):
        return Failure.NON_FINITE
    known, logit = logits[:vocab_size], float(logits[token_id])
    ids = largest(known, top) if top else torch.empty(0, dtype=torch.int64)
    return TokenLogprobs(
        token_id,
        max(logit - norm, LOWEST),
        rank(known, token_id, logit),
        tuple(
            (listed, max(value - norm, LOWEST))
            for listed, value in zip(ids.tolist(), known[ids].tolist(), strict=True)
        ),
    )


def prompt_logprobs(
    chunks: Sequence[ScheduledChunk],
    hidden: torch.Tensor,
    head: Callable[[torch.Tensor], torch.Tensor],
    vocab_size: int,
) -> dict[int, list[TokenLogprobs | Failure]]:
    """Scores of the prompt tokens that stand behind each row of the chunks that ask for them.

    Args:
        chunks: Of one step.
        hidden: [rows of the step, hidden].
        head: From hidden states to logits; gets `SLICE_ROWS` rows at most.
        vocab_size: As for `score`.

    Returns:
        By request id: positions start + 1 to the chunk's or the prompt's end, whichever is
        first; absent where that is none.
    """
    scored: dict[int, list[TokenLogprobs | Failure]] = {}
    offset = 0
    for chunk in chunks:
        if tokens := prompt_targets(chunk):
            states = hidden[offset : offset + len(tokens)]
            top = chunk.sampling.prompt_logprobs or 0
            scored[chunk.request_id] = [
                score(logits, token, top, vocab_size)
                for part in _slices(len(tokens))
                for logits, token in zip(head(states[part]), tokens[part], strict=True)
            ]
        offset += len(chunk.token_ids)
    return scored


def _slices(rows: int) -> Iterator[slice]:
    for first in range(0, rows, SLICE_ROWS):
        yield slice(first, min(first + SLICE_ROWS, rows))
