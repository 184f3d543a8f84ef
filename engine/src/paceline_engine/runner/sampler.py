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
from paceline_engine.runner.ranking import largest
from paceline_engine.sampling import SamplingParams

# A nucleus seldom has more tokens: first only this many are put in order.
_NUCLEUS_GUESS = 512


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
    lowest, highest = torch.aminmax(logits, dim=-1)  # both carry NaN on
    finite = (lowest.isfinite() & highest.isfinite()).tolist()
    greedy = logits.argmax(-1).tolist()
    tokens: list[int | Failure] = []
    for row, draw in enumerate(draws):
        if not finite[row]:
            tokens.append(Failure.NON_FINITE)
        elif draw.adjustment is not None:
            adjusted = draw.adjustment.apply(logits[row], draw.position)
            tokens.append(adjusted if isinstance(adjusted, Failure) else draw_token(adjusted, draw))
        elif draw.sampling.is_greedy:
            tokens.append(greedy[row])
        else:
            tokens.append(draw_token(logits[row], draw))
    return tokens


def draw_token(logits: torch.Tensor, draw: Draw) -> int:
    """Draws from one row [vocabulary] without NaN, in which something is finite."""
    sampling = draw.sampling
    if sampling.is_greedy:
        return int(logits.argmax())
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
        kept, ids = _first(logits, sampling.top_k)
        weights = _weights(kept, kept[0], sampling)
        return _nucleus(weights, ids, sampling, float(weights.sum(dtype=torch.float64)))
    weights = _weights(logits, logits.max(), sampling)
    if sampling.top_p >= 1.0:
        return weights, None
    mass = float(weights.sum(dtype=torch.float64))
    _, ids = _first(logits, _NUCLEUS_GUESS)
    if float(weights[ids].sum(dtype=torch.float64)) < sampling.top_p * mass:
        ids = logits.sort(descending=True, stable=True).indices
    return _nucleus(weights[ids], ids, sampling, mass)


def _first(logits: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    values, ids = largest(logits.unsqueeze(0), min(count, logits.shape[0]))
    return values[0], ids[0]


def _weights(logits: torch.Tensor, highest: torch.Tensor, sampling: SamplingParams) -> torch.Tensor:
    """Probabilities over the best one's, which has 1: min_p is a share of that."""
    # The largest is subtracted first: a tiny temperature must not make infinity of it.
    weights = ((logits - highest) / sampling.temperature).exp()
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
