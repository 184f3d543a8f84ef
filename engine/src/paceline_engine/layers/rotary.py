"""Tables of the rotary position embedding."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from paceline_engine.kernels.operands import RotaryTable


def rotary_table(
    head_dim: int,
    theta: float,
    positions: int,
    divisors: Sequence[float] = (),
    amplitude: float = 1.0,
) -> RotaryTable:
    """Angles position * theta^(-2 i / head_dim) / divisor, fp32 throughout as in training code.

    Args:
        head_dim: Width of one head.
        theta: Base of the frequencies.
        positions: Positions 0 to positions - 1 are tabulated.
        divisors: One for each of the head_dim / 2 frequencies; none means all are 1.
        amplitude: Factor of cosine and sine.
    """
    exponents = torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim
    waves = theta**exponents
    if divisors:
        waves *= torch.tensor(divisors, dtype=torch.float32)
    angles = torch.outer(torch.arange(positions, dtype=torch.float32), 1.0 / waves)
    return RotaryTable(angles.cos() * amplitude, angles.sin() * amplitude)
