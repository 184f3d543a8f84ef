"""Log-probabilities as the two routes write them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from paceline_engine.message import TokenLogprobs
from paceline_engine.server.answer_wire import (
    ChatLogprob,
    ChatLogprobs,
    ChatTokenLogprob,
    PromptLogprob,
    PromptLogprobs,
    TextLogprobs,
)
from paceline_engine.server.piece import Opening, Scored, ScoredToken
from paceline_engine.server.token_texts import TokenTexts

Place = tuple[int, int, TokenLogprobs | None]
"""Offset, token id, log-probabilities; the first token of a prompt has none."""


def text_logprobs(texts: TokenTexts, top: int, places: Sequence[Place]) -> TextLogprobs:
    """Columns of a completion.

    Args:
        texts: Token texts.
        top: Best tokens shown at each place; the token itself comes on top where it is
            not among them.
        places: From `echoed` or `drawn`.
    """
    return TextLogprobs(
        text_offset=tuple(offset for offset, _, _ in places),
        tokens=tuple(texts.key(token_id) for _, token_id, _ in places),
        token_logprobs=tuple(None if scores is None else scores.logprob for _, _, scores in places),
        top_logprobs=tuple(
            None if scores is None else _by_text(texts, top, scores) for _, _, scores in places
        ),
    )


def echoed(opening: Opening) -> Iterator[Place]:
    """Places of an echoed prompt, made one by one since they are many; none without echo."""
    if opening.offsets:
        scores = chain[TokenLogprobs | None]((None,), opening.scores)
        yield from zip(opening.offsets, opening.token_ids, scores, strict=True)


def drawn(scored: Scored) -> Iterator[Place]:
    """Places of drawn tokens, made one by one as well."""
    for token in scored:
        yield token.offset, token.scores.token_id, token.scores


def _by_text(texts: TokenTexts, top: int, scores: TokenLogprobs) -> dict[str, float]:
    shown: dict[str, float] = {}
    for token_id, logprob in (*scores.top[:top], (scores.token_id, scores.logprob)):
        shown.setdefault(texts.key(token_id), logprob)
    return shown


def chat_logprobs(texts: TokenTexts, top: int, scored: Iterable[ScoredToken]) -> ChatLogprobs:
    """Log-probabilities of a chat answer.

    Args:
        texts: Token texts.
        top: Best tokens shown at each place.
        scored: Tokens.
    """
    return ChatLogprobs(content=tuple(_chat_token(texts, top, each.scores) for each in scored))


def _chat_token(texts: TokenTexts, top: int, scores: TokenLogprobs) -> ChatTokenLogprob:
    return ChatTokenLogprob(
        token=texts.text(scores.token_id),
        logprob=scores.logprob,
        bytes=tuple(texts.raw(scores.token_id)),
        top_logprobs=tuple(
            ChatLogprob(
                token=texts.text(token_id), logprob=logprob, bytes=tuple(texts.raw(token_id))
            )
            for token_id, logprob in scores.top[:top]
        ),
    )


def prompt_logprobs(
    texts: TokenTexts, top: int, scores: Sequence[TokenLogprobs | None]
) -> PromptLogprobs:
    """Log-probabilities of a prompt, as vLLM writes them.

    Args:
        texts: Token texts.
        top: Best tokens shown at each place, beside the token itself.
        scores: For each place; None for a prompt's first token.
    """
    return tuple(None if each is None else _prompt_token(texts, top, each) for each in scores)


def _prompt_token(texts: TokenTexts, top: int, scores: TokenLogprobs) -> dict[str, PromptLogprob]:
    own = (scores.token_id, scores.logprob, scores.rank)
    others = [
        (token_id, logprob, rank) for rank, (token_id, logprob) in enumerate(scores.top[:top], 1)
    ]
    return {
        str(token_id): PromptLogprob(logprob=logprob, rank=rank, decoded_token=texts.text(token_id))
        for token_id, logprob, rank in (*others, own)
    }
