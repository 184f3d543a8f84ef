"""From logits to tokens: greedy, or by inverse CDF with a number of (seed, position).

A draw depends on its own row of logits, its settings, its tokens so far and its position, on
nothing else. Filters follow in vLLM's order, each on what the one before left: temperature,
min_p, top_k, top_p (vllm/v1/sample/sampler.py at commit 3e342658, steps 7b to 7d); of equals
they keep those with the lower ids, where vLLM keeps all that equal the last of the k best.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from paceline_engine.runner.adjustment import Adjustment
from paceline_engine.runner.failure import Failure
from paceline_engine.runner.philox import uniform
from paceline_engine.runner.ranking import best, largest
from paceline_engine.sampling import SamplingParams

# A nucleus seldom has more tokens: first only this many are put in order.
_NUCLEUS_GUESS = 512
_NUCLEUS_GROWTH = 8


@dataclass(frozen=True, slots=True)
class Draw:
    """One token to draw.

    Attributes:
        sampling: How.
        position: Where the token will stand in its sequence.
        adjustment: What its settings do to the logits first.
    """

    sampling: SamplingParams
    position: int
    adjustment: Adjustment | None = None


def sample(logits: torch.Tensor, draws: Sequence[Draw]) -> list[int | Failure]:
    """Draws a token for each row.

    Args:
        logits: [rows, vocabulary] fp32; left as they are.
        draws: One for each row.

    Returns:
        Token ids, or why there is none: NaN or infinity in the row fails it alone.
    """
    finite = (logits.amin(-1).isfinite() & logits.amax(-1).isfinite()).tolist()  # NaN carries on
    return [
        _token(row, draw) if is_finite else Failure.NON_FINITE
        for row, draw, is_finite in zip(logits, draws, finite, strict=True)
    ]


def _token(logits: torch.Tensor, draw: Draw) -> int | Failure:
    if draw.adjustment is None:
        return draw_token(logits, draw)
    adjusted = draw.adjustment.apply(logits, draw.position)
    return adjusted if isinstance(adjusted, Failure) else draw_token(adjusted, draw)


def draw_token(logits: torch.Tensor, draw: Draw) -> int:
    """Draws from one row [vocabulary] without NaN, in which something is finite."""
    sampling = draw.sampling
    if sampling.is_greedy:
        return best(logits)
    weights, ids = candidates(logits, sampling)
    index = _invert(weights, uniform(sampling.seed, draw.position))
    return index if ids is None else int(ids[index])


def candidates(
    logits: torch.Tensor, sampling: SamplingParams
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Relative probabilities after temperature and filters, and whose they are.

    Args:
        logits: One row [vocabulary].
        sampling: With a temperature that is not greedy.

    Returns:
        Weights; 0 is never drawn. Ids, best first, or None where the row's own order stands.
    """
    if sampling.top_k:
        ids = largest(logits, sampling.top_k)
        weights = _weights(logits[ids], sampling)
        return _nucleus(weights, ids, sampling, float(weights.sum(dtype=torch.float64)))
    weights = _weights(logits, sampling)
    if sampling.top_p >= 1.0:
        return weights, None
    mass = float(weights.sum(dtype=torch.float64))
    ids = _best_with(sampling.top_p * mass, logits, weights)
    return _nucleus(weights[ids], ids, sampling, mass)


def _best_with(mass: float, logits: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """So many of the best tokens, in order, that their weights reach `mass`."""
    count = _NUCLEUS_GUESS
    while True:
        ids = largest(logits, count)
        if count >= len(logits) or float(weights[ids].sum(dtype=torch.float64)) >= mass:
            return ids
        count *= _NUCLEUS_GROWTH


def _weights(logits: torch.Tensor, sampling: SamplingParams) -> torch.Tensor:
    """Probabilities over the best one's, which has 1: min_p is a share of that."""
    # The largest is subtracted first: a tiny temperature must not make infinity of it.
    weights = ((logits - logits.max()) / sampling.temperature).exp()
    return weights.where(weights >= sampling.min_p, 0.0) if sampling.min_p > 0 else weights


def _nucleus(
    weights: torch.Tensor, ids: torch.Tensor, sampling: SamplingParams, mass: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """The first of `ids`, best first, whose weights together reach top_p of `mass`."""
    if sampling.top_p >= 1.0:
        return weights, ids
    before = weights.cumsum(0, dtype=torch.float64) - weights
    size = max(1, int((before < sampling.top_p * mass).sum()))
    return weights[:size], ids[:size]


def _invert(weights: torch.Tensor, number: float) -> int:
    """Index i with cdf(i - 1) <= number < cdf(i); its weight is never 0."""
    cdf = weights.cumsum(0, dtype=torch.float64)
    total = float(cdf[-1])
    target = min(number * total, math.nextafter(total, 0.0))
    return min(int(torch.searchsorted(cdf, target, right=True)), len(weights) - 1)
