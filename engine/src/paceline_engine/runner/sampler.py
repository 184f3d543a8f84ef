"""From logits to tokens: greedy, or by inverse CDF with a number of (seed, position).

A draw depends on its own row of logits, its settings and its position, on nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from paceline_engine.runner.philox import uniform
from paceline_engine.sampling import SamplingParams

# A nucleus seldom has more tokens: first only this many are put in order.
_NUCLEUS_GUESS = 512


@dataclass(frozen=True, slots=True)
class Draw:
    """One token to draw.

    Attributes:
        sampling: How.
        position: Where the token will stand in its sequence.
    """

    sampling: SamplingParams
    position: int


def sample(logits: torch.Tensor, draws: Sequence[Draw]) -> list[int | None]:
    """Draws a token for each row.

    Args:
        logits: [rows, vocabulary] fp32.
        draws: One for each row.

    Returns:
        Token ids; None where the row holds NaN or infinity.
    """
    lowest, highest = torch.aminmax(logits, dim=-1)  # both carry NaN on
    finite = (lowest.isfinite() & highest.isfinite()).tolist()
    greedy = logits.argmax(-1).tolist()
    tokens: list[int | None] = []
    for row, draw in enumerate(draws):
        if not finite[row]:
            tokens.append(None)
        elif draw.sampling.is_greedy:
            tokens.append(greedy[row])
        else:
            tokens.append(draw_token(logits[row], draw))
    return tokens


def draw_token(logits: torch.Tensor, draw: Draw) -> int:
    """Draws from one finite row [vocabulary] with a temperature that is not greedy."""
    sampling = draw.sampling
    # The largest is subtracted first: a tiny temperature must not make infinity of it.
    weights = ((logits - logits.max()) / sampling.temperature).exp()
    number = uniform(sampling.seed, draw.position)
    if sampling.top_k == 0 and sampling.top_p >= 1.0:
        return _invert(weights, number)
    kept, ids = _best(weights, sampling)
    return int(ids[_invert(kept, number)])


def _invert(weights: torch.Tensor, number: float) -> int:
    """Index i with cdf(i - 1) <= number < cdf(i); its weight is never 0."""
    cdf = weights.cumsum(0, dtype=torch.float64)
    total = float(cdf[-1])
    target = min(number * total, math.nextafter(total, 0.0))
    return min(int(torch.searchsorted(cdf, target, right=True)), len(weights) - 1)


def _best(weights: torch.Tensor, sampling: SamplingParams) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights and ids that top_k, then top_p of what is left, keep; largest first."""
    vocabulary = weights.shape[0]
    if sampling.top_k:
        kept, ids = weights.topk(min(sampling.top_k, vocabulary))
        mass = float(kept.sum(dtype=torch.float64))
    else:
        kept, ids = weights.topk(min(_NUCLEUS_GUESS, vocabulary))
        mass = float(weights.sum(dtype=torch.float64))
        if float(kept.sum(dtype=torch.float64)) < sampling.top_p * mass:
            kept, ids = weights.sort(descending=True, stable=True)
    before = kept.cumsum(0, dtype=torch.float64) - kept
    size = max(1, int((before < sampling.top_p * mass).sum()))
    return kept[:size], ids[:size]
