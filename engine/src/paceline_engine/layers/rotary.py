"""Tables of the rotary position embedding."""

from __future__ import annotations

import torch

from paceline_engine.kernels.operands import RotaryTable


def rotary_table(head_dim: int, theta: float, positions: int) -> RotaryTable:
    """Angles position * theta^(-2 i / head_dim), fp32 throughout as in training code.

    Args:
        head_dim: Width of one head.
        theta: Base of the frequencies.
        positions: Positions 0 to positions - 1 are tabulated.
    """
    exponents = torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim
    angles = torch.outer(torch.arange(positions, dtype=torch.float32), 1.0 / theta**exponents)
    return RotaryTable(angles.cos(), angles.sin())
