"""The order of tokens by logit: larger first, equals by id.

Everything that picks or reports the best tokens goes by it, so a token that a filter kept is
among as many that are reported.
"""

from __future__ import annotations

import torch


def largest(logits: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The first `count` of each row, in order.

    Args:
        logits: [rows, vocabulary]. A row that holds NaN comes back in no fixed order.
        count: 1 to vocabulary.

    Returns:
        Logits and ids, both [rows, count].
    """
    values, ids = logits.topk(count)  # leaves open which of equals it takes, and their order
    last = values[:, -1:]
    tied = (values[:, 1:] == values[:, :-1]).any(1) | ((logits >= last).sum(1) > count)
    for row in (tied & ~values[:, 0].isnan()).nonzero().flatten().tolist():
        candidates = (logits[row] >= last[row]).nonzero().flatten()
        ordered = logits[row, candidates].sort(descending=True, stable=True)
        values[row] = ordered.values[:count]
        ids[row] = candidates[ordered.indices[:count]]
    return values, ids


def rank(logits: torch.Tensor, token_id: int, logit: float) -> int:
    """Place of a token in one row [vocabulary], from 1.

    Args:
        logits: The row.
        token_id: The token; it may lie outside the row.
        logit: Its logit.
    """
    ahead = int((logits > logit).sum()) + int((logits[:token_id] == logit).sum())
    return ahead + 1
