"""How one request wants its tokens drawn. Plain data, checked when built."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

GREEDY_BELOW: Final = 1e-5
"""Temperatures below it take the best token: fp32 cannot tell them from 0, or not for long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """Sampling settings of one request, in OpenAI's terms.

    Attributes:
        temperature: Below `GREEDY_BELOW` is greedy; larger is flatter.
        top_p: Nucleus mass in (0, 1].
        top_k: Keep the k best tokens; 0 keeps all.
        seed: 64-bit seed. The token at absolute position p depends on (seed, p) and the
            logits alone, so batch mates, chunking and preemption cannot change it. The
            server draws one where the client gave none.
        max_tokens: Output tokens at most, at least 1.
        ignore_eos: Go on past end-of-generation tokens.
        stop_token_ids: Further ids that end the output; the id itself is not shown.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int = 0
    max_tokens: int = 16
    ignore_eos: bool = False
    stop_token_ids: tuple[int, ...] = ()

    @property
    def is_greedy(self) -> bool:
        """Whether the best token is always taken."""
        return self.temperature < GREEDY_BELOW
