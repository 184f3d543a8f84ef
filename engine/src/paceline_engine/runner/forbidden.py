"""Tokens that may not stand at a position, whatever the logits say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from paceline_engine.sampling import SamplingParams


def forbidden_tokens(
    sampling: SamplingParams,
    *,
    history: Sequence[int],
    position: int,
    num_prompt_tokens: int,
    end_token_ids: Iterable[int],
    vocab_size: int,
) -> set[int]:
    """Ids that the request's settings rule out at `position`.

    Before `min_tokens` these are the end-of-generation tokens, even those the request ignores,
    and its own stop tokens; at any time the last token of each bad word whose other tokens end
    the text before.

    Args:
        sampling: Settings of the request.
        history: Its tokens, prompt first, at least to `position`.
        position: Where the token would stand.
        num_prompt_tokens: How many of `history` are the prompt.
        end_token_ids: End-of-generation set of the model.
        vocab_size: Ids outside [0, vocab_size) are left out: no row of logits has them.
    """
    forbidden = set(_completing(sampling.bad_words, history, position))
    if position - num_prompt_tokens < sampling.min_tokens:
        forbidden.update(end_token_ids, sampling.stop_token_ids)
    return {token for token in forbidden if 0 <= token < vocab_size}


def _completing(
    bad_words: Iterable[Sequence[int]], history: Sequence[int], position: int
) -> Iterator[int]:
    for word in bad_words:
        start = position + 1 - len(word)
        if word and start >= 0 and tuple(history[start:position]) == tuple(word[:-1]):
            yield word[-1]
