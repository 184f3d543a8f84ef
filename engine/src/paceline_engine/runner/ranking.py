"""The order of tokens by logit: larger first, equals by id.

Everything that picks or reports the best tokens goes by it, so a token that a filter kept is
among as many that are reported. NumPy selects several times faster here than torch.
"""

from __future__ import annotations

import numpy as np
import torch


def best(logits: torch.Tensor) -> int:
    """The first token of one row [vocabulary] without NaN."""
    return int(logits.numpy().argmax())


def largest(logits: torch.Tensor, count: int) -> torch.Tensor:
    """The first `count` tokens, in order, or all if there are fewer.

    Args:
        logits: One row [vocabulary] without NaN.
        count: At least 1.
    """
    row = logits.numpy()
    ids = np.arange(len(row))
    if count < len(row):
        ids = np.flatnonzero(row >= np.partition(row, -count)[-count])  # more if some are equal
    order = np.argsort(-row[ids], kind="stable")[:count]
    return torch.from_numpy(ids[order])


def rank(logits: torch.Tensor, token_id: int, logit: float) -> int:
    """Place of a token in the order, from 1.

    Args:
        logits: One row [vocabulary] without NaN.
        token_id: The token; it may lie outside the row.
        logit: Its logit.
    """
    row = logits.numpy()
    ahead = np.count_nonzero(row > logit) + np.count_nonzero(row[:token_id] == logit)
    return int(ahead) + 1
