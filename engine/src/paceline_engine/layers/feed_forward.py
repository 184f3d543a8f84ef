"""Gated feed-forward layer."""

from __future__ import annotations

import torch

from paceline_engine.kernels.base import Kernels
from paceline_engine.layers.linear import Linear


class FeedForward:
    """down(silu(gate(x)) * up(x)); Shazeer, arXiv:2002.05202.

    Args:
        gate_up: Rows of the gate, then of the up projection.
        down: Down projection.
        kernels: Kernels in use.
    """

    def __init__(self, gate_up: Linear, down: Linear, kernels: Kernels) -> None:
        self._gate_up = gate_up
        self._down = down
        self._kernels = kernels

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """[rows, hidden] -> [rows, hidden]."""
        return self._down(self._kernels.silu_mul(self._gate_up(x)))
