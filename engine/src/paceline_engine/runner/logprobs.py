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
"""Rows of logits scored at a time; about three such slices are in memory at once."""


def drawn_logprobs(
    logits: torch.Tensor,
    rows: Sequence[int],
    token_ids: Sequence[int],
    tops: Sequence[int],
    vocab_size: int,
) -> list[TokenLogprobs | Failure]:
    """Scores of tokens that were drawn from some rows of a step.

    Args:
        logits: [all rows, model vocabulary] fp32, as the model gave them.
        rows: Those to score.
        token_ids: The token of each of `rows`.
        tops: As for `score`.
        vocab_size: As for `score`.
    """
    scored: list[TokenLogprobs | Failure] = []
    for part in _slices(len(rows)):
        scored += score(logits[list(rows[part])], token_ids[part], tops[part], vocab_size)
    return scored


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
            rows, top = len(tokens), chunk.sampling.prompt_logprobs or 0
            states, tops = hidden[offset : offset + rows], [top] * rows
            scored[chunk.request_id] = [
                found
                for part in _slices(rows)
                for found in score(head(states[part]), tokens[part], tops[part], vocab_size)
            ]
        offset += len(chunk.token_ids)
    return scored


def score(
    logits: torch.Tensor, token_ids: Sequence[int], tops: Sequence[int], vocab_size: int
) -> list[TokenLogprobs | Failure]:
    """Log-probability and rank of a token in each row, and the row's best ones.

    Args:
        logits: [rows, model vocabulary] fp32.
        token_ids: One for each row.
        tops: How many of the best to list for each row.
        vocab_size: Ids from here on are not listed.

    Returns:
        One for each row; a failure where it holds NaN or plus infinity.
    """
    logprobs = logits.log_softmax(-1)
    known = logits[:, :vocab_size]
    chosen = torch.tensor(token_ids).unsqueeze(1)
    values = logits.gather(1, chosen).flatten().tolist()
    own = logprobs.gather(1, chosen).flatten().tolist()
    _, ids = largest(known, min(max(1, *tops), known.shape[1]))
    best = logprobs.gather(1, ids).tolist()
    return [
        Failure.NON_FINITE
        if math.isnan(own[row])
        else TokenLogprobs(
            token_id,
            max(own[row], LOWEST),
            rank(known[row], token_id, values[row]),
            _listed(ids[row, :top].tolist(), best[row]),
        )
        for row, (token_id, top) in enumerate(zip(token_ids, tops, strict=True))
    ]


def _slices(rows: int) -> Iterator[slice]:
    for first in range(0, rows, SLICE_ROWS):
        yield slice(first, min(first + SLICE_ROWS, rows))


def _listed(ids: list[int], logprobs: list[float]) -> tuple[tuple[int, float], ...]:
    return tuple((i, max(logprob, LOWEST)) for i, logprob in zip(ids, logprobs, strict=False))
