"""How one request wants its tokens drawn. Plain data; the server has checked it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

GREEDY_BELOW: Final = 1e-5
"""Temperatures below it take the best token: fp32 cannot tell them from 0, or not for long."""

_SEED_MASK: Final = (1 << 64) - 1
_SEED_STRIDE: Final = 0xD1342543DE82EF95  # odd, so 2^64 choices differ; no other law steps by it


def choice_seed(seed: int, index: int) -> int:
    """Seed of one of the choices that `n` or `best_of` asks for; choice 0 has the request's.

    Args:
        seed: The request's, of any size.
        index: Number of the choice, from 0.
    """
    return (seed + index * _SEED_STRIDE) & _SEED_MASK


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
        min_p: Drop tokens less likely than this share of the best one's probability.
        min_tokens: No end-of-generation token, ignored or not, and no stop token before so many
            output tokens.
        presence_penalty: Taken off the logit of every token the output holds.
        frequency_penalty: Taken off for each time the output holds it.
        repetition_penalty: Divides (or multiplies, below zero) the logit of every token of
            prompt and output, as in CTRL, https://arxiv.org/abs/1909.05858.
        logit_bias: (token id, bias) added to the logit; checked against the vocabulary.
        bad_words: Token sequences the output may never hold.
        logprobs: Report the drawn token's log-probability and those of the k best; None
            reports nothing, 0 the drawn one's only. Of the model's own distribution, before
            penalties and temperature, as vLLM's default.
        prompt_logprobs: The same for each prompt token but the first; such a request reads
            nothing from the prefix cache.
        shapes_logits: Follows from the others: whether logits change before temperature.
            Steps ask it of every request, so it is worked out once.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int = 0
    max_tokens: int = 16
    ignore_eos: bool = False
    stop_token_ids: tuple[int, ...] = ()
    min_p: float = 0.0
    min_tokens: int = 0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    bad_words: tuple[tuple[int, ...], ...] = ()
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    shapes_logits: bool = field(init=False, default=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        shapes = (
            self.min_tokens > 0
            or self.presence_penalty != 0.0
            or self.frequency_penalty != 0.0
            or self.repetition_penalty != 1.0
            or bool(self.logit_bias)
            or bool(self.bad_words)
        )
        object.__setattr__(self, "shapes_logits", shapes)

    @property
    def is_greedy(self) -> bool:
        """Whether the best token is always taken."""
        return self.temperature < GREEDY_BELOW
