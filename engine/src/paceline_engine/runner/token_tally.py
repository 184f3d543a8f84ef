"""Which tokens a request holds so far, kept from step to step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

_FIRST_CAPACITY = 64


class TokenTally:
    """Distinct tokens of one request and how often its output holds each.

    Only what is new since the last step is looked at, so a step costs the same at any length.

    Args:
        num_prompt_tokens: Leading tokens that are the prompt: listed, not counted.
        vocab_size: Ids outside [0, vocab_size) are left out.
        lists_prompt: Whether prompt tokens are listed at all.
    """

    def __init__(self, num_prompt_tokens: int, vocab_size: int, *, lists_prompt: bool) -> None:
        self._num_prompt_tokens = num_prompt_tokens
        self._vocab_size = vocab_size
        self._seen = 0 if lists_prompt else num_prompt_tokens
        self._places: dict[int, int] = {}
        self._ids = np.empty(_FIRST_CAPACITY, np.int64)
        self._counts = np.zeros(_FIRST_CAPACITY, np.float32)

    def extend(self, history: Sequence[int], end: int) -> None:
        """Takes in the tokens of `history` up to position `end` that are new."""
        for position in range(self._seen, end):
            token = history[position]
            if 0 <= token < self._vocab_size:
                place = self._place(token)
                self._counts[place] += position >= self._num_prompt_tokens
        self._seen = max(self._seen, end)

    @property
    def ids(self) -> torch.Tensor:
        """[distinct] int64, in order of first appearance."""
        return torch.from_numpy(self._ids[: len(self._places)])

    @property
    def output_counts(self) -> torch.Tensor:
        """[distinct] fp32: times the output holds each of `ids`."""
        return torch.from_numpy(self._counts[: len(self._places)])

    def _place(self, token: int) -> int:
        place = self._places.setdefault(token, len(self._places))
        if place == len(self._ids):
            self._ids = np.concatenate([self._ids, np.empty_like(self._ids)])
            self._counts = np.concatenate([self._counts, np.zeros_like(self._counts)])
        self._ids[place] = token
        return place
