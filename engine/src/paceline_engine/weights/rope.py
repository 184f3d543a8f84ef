"""Scalings of the rotary embedding, all brought to one form.

Every scaling divides each frequency theta^(-2 i / head_dim) by a number of its own and may
stretch the rotated vectors; so a model needs the divisors and the amplitude only, whatever
its checkpoint calls them. Compared with transformers' `modeling_rope_utils` in the tests.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Rope:
    """What a model's rotary embedding is.

    Attributes:
        theta: Base of the frequencies.
        divisors: One for each of the head_dim / 2 frequencies; none means all are 1.
        amplitude: Factor of cosine and sine.
        longest: Positions beyond which the frequencies would have to change in the middle
            of a sequence; None where there are none.
    """

    theta: float
    divisors: tuple[float, ...] = ()
    amplitude: float = 1.0
    longest: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Yarn:
    """Parameters of YaRN; Peng et al., arXiv:2309.00071.

    Attributes:
        factor: By how much the context was stretched.
        original: Context before, in tokens.
        beta_fast: Rotations in the original context from which a frequency stays as it is.
        beta_slow: Rotations up to which it is divided by the whole factor.
        truncate: Whether the range between is widened to whole dimensions.
    """

    factor: float
    original: float
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True


def linear_divisors(head_dim: int, factor: float) -> tuple[float, ...]:
    """Position interpolation; Chen et al., arXiv:2306.15595."""
    return (factor,) * (head_dim // 2)


def llama3_divisors(
    head_dim: int, theta: float, *, factor: float, low: float, high: float, original: float
) -> tuple[float, ...]:
    """Llama 3.1: long waves are divided by `factor`, short ones stay, between them a ramp.

    Args:
        head_dim: Width of one head.
        theta: Base of the frequencies.
        factor: Divisor of the long waves.
        low: Waves longer than original / low are long.
        high: Waves shorter than original / high are short.
        original: Context of the first training, in tokens.
    """

    def divisor(pair: int) -> float:
        wave: float = 2 * math.pi * theta ** (2 * pair / head_dim)
        if wave < original / high:
            return 1.0
        if wave > original / low:
            return factor
        share = (original / wave - low) / (high - low)
        return 1 / ((1 - share) / factor + share)

    return tuple(map(divisor, range(head_dim // 2)))


def yarn_divisors(head_dim: int, theta: float, yarn: Yarn) -> tuple[float, ...]:
    """Fast frequencies stay, slow ones are divided by the factor, between them a ramp."""
    start, end = _ramp(head_dim, theta, yarn)

    def divisor(pair: int) -> float:
        share = min(max((pair - start) / (end - start), 0.0), 1.0)
        return 1 / (share / yarn.factor + (1 - share))

    return tuple(map(divisor, range(head_dim // 2)))


def _ramp(head_dim: int, theta: float, yarn: Yarn) -> tuple[float, float]:
    def dimension(rotations: float) -> float:
        periods = yarn.original / (rotations * 2 * math.pi)
        return head_dim * math.log(periods) / (2 * math.log(theta))

    start, end = dimension(yarn.beta_fast), dimension(yarn.beta_slow)
    if yarn.truncate:
        start, end = math.floor(start), math.ceil(end)
    start, end = max(start, 0), min(end, head_dim - 1)
    return start, end if end != start else end + 0.001


def yarn_amplitude(factor: float, weight: float = 1.0) -> float:
    """Stretch of attention that goes with a stretched context."""
    return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0


def longrope_amplitude(factor: float, original: float) -> float:
    """As `yarn_amplitude`; Ding et al., arXiv:2402.13753."""
    return 1.0 if factor <= 1 else math.sqrt(1 + math.log(factor) / math.log(original))
